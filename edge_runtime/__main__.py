"""`python -m edge_runtime`: runs, times and inspects a model file on the device.

Exit codes: 0 done, 2 usage, 3 the model or its data was refused or failed, 5 a package is missing, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from edge_runtime.commands import benchmark, inspect, memory, run
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.version import VERSION

_COMMANDS = {
    "run": (run, "classify images or arrays"),
    "benchmark": (benchmark, "time model files against each other"),
    "inspect": (inspect, "show what a model file takes and gives"),
    "memory": (memory, "peak memory of loading and running a file, in this process"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Executes a command line and gives its exit code. Errors go to stderr, one line, unless `--debug` is given."""
    parsed = _parser().parse_args(arguments)
    try:
        _COMMANDS[parsed.command][0].execute(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain once more while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if parsed.debug:
            raise
        if isinstance(error, EdgeRuntimeError):
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
        print(f"error: {type(error).__name__}: {error} (--debug shows the traceback)", file=sys.stderr)
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m edge_runtime", description="Runs, times and inspects model files on the device."
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (module, text) in _COMMANDS.items():
        module.add(commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + "."))
    return parser


if __name__ == "__main__":
    sys.exit(main())
