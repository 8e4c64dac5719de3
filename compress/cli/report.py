"""`report RUN`: the report of a run that has ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from compress.cli.parser import choice

SUMMARY = "print the report of a run"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder, or its report.json")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=choice("markdown", "summary", "json", "html"),
        default="markdown",
        help="markdown, summary, json or html (default: markdown)",
    )


def execute(arguments: argparse.Namespace) -> int:
    from compress.report.terminal import load_report, render_summary

    report = load_report(arguments.run)
    if arguments.format == "summary":
        print(render_summary(report))
    elif arguments.format == "json":
        print(report.model_dump_json(indent=1))
    elif arguments.format == "html":
        from compress.report.html import render_html

        print(render_html(report))
    else:
        from compress.report.markdown import render_markdown

        print(render_markdown(report))
    return 0
