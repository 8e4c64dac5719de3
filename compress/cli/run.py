"""`run RECIPE`: every stage that is not in the store already, the report, the gates."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from compress.cli.options import add_recipe, add_store

SUMMARY = "run a recipe: compute what is not stored yet, report, judge the gates"


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_store(parser)
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="where run folders are made (default: runs)")
    parser.add_argument("--directory", metavar="FOLDER", type=Path, help="the run's own folder, which must be new")
    parser.add_argument("--device", metavar="DEVICE", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")


def execute(arguments: argparse.Namespace) -> int:
    # OpenMP reads this when it is loaded. Its default lets idle threads spin, which on a core that something else needs
    # too makes a training step many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from compress.pipeline.run import run

    result = run(
        arguments.recipe,
        arguments.overrides,
        store=arguments.store,
        runs=arguments.runs,
        directory=arguments.directory,
        device=arguments.device,
        listener=(lambda event: None) if arguments.quiet else None,
    )
    # What went wrong goes to stderr, so that it is read even where the output is piped away.
    print(result.message, file=sys.stdout if result.passed else sys.stderr)
    return int(result.exit_code)
