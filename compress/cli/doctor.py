"""`doctor`: what this installation has, and what is wrong with it."""

from __future__ import annotations

import argparse
import sys

from compress.errors import ExitCode

SUMMARY = "show versions, conflicts, engines and the machine"


def configure(parser: argparse.ArgumentParser) -> None:
    """Takes no options."""


def execute(arguments: argparse.Namespace) -> int:
    from compress.diagnosis import diagnose

    found = diagnose()
    rows = [*found.machine, ("", ""), *found.packages, ("", ""), *found.engines]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:{width}}  {value}".rstrip() for name, value in rows))
    for conflict in found.conflicts:
        print(f"conflict: {conflict}", file=sys.stderr)
    return ExitCode.ENVIRONMENT if found.conflicts else ExitCode.OK
