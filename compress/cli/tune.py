"""`tune RECIPE`: searches what the recipe's section `tune` asks for, then runs the recipe with the best values."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from compress.cli.options import add_recipe, add_store

SUMMARY = "search settings of a recipe, then run it with the best values found"


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_store(parser)
    parser.add_argument("--workers", metavar="N", type=_positive, default=1, help="worker processes (default: 1)")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="where run folders are made (default: runs)")
    parser.add_argument("--device", metavar="DEVICE", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--no-run", action="store_true", help="only search; run nothing with the best values")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")


def execute(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # like `run`: idle threads must not spin
    from compress.pipeline.sweep import sweep

    result = sweep(
        arguments.recipe,
        arguments.overrides,
        workers=arguments.workers,
        store=arguments.store,
        runs=arguments.runs,
        device=arguments.device,
        then_run=not arguments.no_run,
        tell=(lambda line: None) if arguments.quiet else _tell,
        listener=(lambda event: None) if arguments.quiet else None,
    )
    for override in result.overrides:
        print(override)
    if result.run is None:
        return 0
    print(result.run.message, file=sys.stdout if result.run.passed else sys.stderr)
    return int(result.run.exit_code)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)
