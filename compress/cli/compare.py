"""`compare RUN RUN`: two runs side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "set the measurements of two runs side by side"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="RUN", type=Path, help="a run's folder, or its report.json")
    parser.add_argument("second", metavar="RUN", type=Path, help="the run to compare it with")


def execute(arguments: argparse.Namespace) -> int:
    from compress.pipeline.compare import compare, render_comparison

    print(render_comparison(compare(arguments.first, arguments.second)))
    return 0
