"""`debug RUN VARIANT`: where an INT8 file loses accuracy, tensor by tensor."""

from __future__ import annotations

import argparse
from pathlib import Path

from compress.cli.options import add_store

SUMMARY = "compare an INT8 file with its float file tensor by tensor, worst first"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder")
    parser.add_argument("variant", metavar="VARIANT", help="an int8 file of it, such as net/tflite-int8")
    parser.add_argument(
        "--samples", metavar="N", type=int, default=16, help="samples of the validation split (default: 16)"
    )
    parser.add_argument("--top", metavar="N", type=int, default=20, help="tensors to print (default: 20)")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a page with all tensors and a chart")
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compress.cli.parser import UsageError
    from compress.pipeline.debug import debug
    from compress.report.layers import render_page, render_text

    for option in ("samples", "top"):
        if getattr(arguments, option) < 1:
            raise UsageError(f"--{option}: expected a number of at least 1, got {getattr(arguments, option)}")
    found = debug(arguments.run, arguments.variant, samples=arguments.samples, store=arguments.store)
    if arguments.html is not None:
        from compress.report.proof import write_text

        write_text(arguments.html, render_page(arguments.variant, found))
    print(render_text(arguments.variant, found, arguments.top))
    return 0
