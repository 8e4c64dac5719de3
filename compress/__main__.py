"""`python -m compress`, the same as `edgepress`.

Exit codes: 0 done and gates passed, 2 recipe or usage, 3 a stage failed, 4 a gate failed, 5 environment (a package is
missing or clashes, the store is out of reach, the disk is full), 130 interrupted. The last line says why.
"""

from __future__ import annotations

import importlib
import os
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence

from compress.cli.parser import Command, Parser, UsageError, parse
from compress.errors import EdgepressError, ExitCode
from edge_runtime.version import VERSION

COMMANDS = ("run", "tune", "validate", "plan", "report", "compare", "debug", "cache", "stages", "schema", "doctor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Executes a command line and gives its exit code; raises only with `--debug`."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        parsed = parse(*_parsers(), arguments)
        code = _command(parsed).execute(parsed)
        sys.stdout.flush()
        return int(code)
    except SystemExit as exit_:  # argparse, after --help and --version
        return int(exit_.code or 0)
    except BrokenPipeError:
        # The reader of stdout has gone (`| head`). Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except Exception as error:
        if debug and not isinstance(error, UsageError):
            raise
        message, exit_code = explain(error)
        print(message, file=sys.stderr)
        return exit_code


def explain(error: Exception) -> tuple[str, int]:
    """What to tell the user, and the exit code. Errors of our packages carry both."""
    code = getattr(error, "exit_code", None)
    if isinstance(error, EdgepressError) or isinstance(code, int):
        return str(error), int(code or ExitCode.STAGE_FAILED)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"package '{package}' is missing; install edgepress[compress]", ExitCode.ENVIRONMENT
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{where}", ExitCode.ENVIRONMENT
    kind = type(error).__name__
    return f"unexpected {kind}: {error} (--debug shows where; please report it)", ExitCode.STAGE_FAILED


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    program = Parser(
        prog="edgepress",
        description="One recipe from a PyTorch model to a small, fast, proven file for the edge.",
        epilog="`edgepress COMMAND --help` explains a command.",
    )
    program.add_argument("--version", action="version", version=VERSION)
    program.add_argument("--debug", action="store_true", help="show the traceback of an error")
    group = program.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    parsers = {}
    for name in COMMANDS:
        command = _module(name)
        summary = command.SUMMARY
        parser = group.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        parser.add_argument("--debug", action="store_true", default=SUPPRESS, help="show the traceback of an error")
        command.configure(parser)
        parsers[name] = parser
    return program, parsers


def _command(parsed: Namespace) -> Command:
    return _module(parsed.command)


def _module(name: str) -> Command:
    module: Command = importlib.import_module(f"compress.cli.{name}")
    return module


if __name__ == "__main__":
    sys.exit(main())
