"""Options that several commands take."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe, a YAML file")
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="lay a value over the recipe, such as stages.baseline.epochs=1; may be given several times",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="FOLDER",
        type=Path,
        help="where results are kept (default: $EDGEPRESS_STORE, or .edgepress in the working directory)",
    )
