"""`schema`: a JSON Schema of recipes, for editors."""

from __future__ import annotations

import argparse
import json

SUMMARY = "print a JSON Schema of recipes, for completion and checks in editors"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Write it to a file and name that file in the first line of a recipe: "
        "# yaml-language-server: $schema=recipe.schema.json"
    )


def execute(arguments: argparse.Namespace) -> int:
    from compress.pipeline.registry import installed_registry
    from compress.recipe.json_schema import recipe_schema

    print(json.dumps(recipe_schema(installed_registry()), indent=1, ensure_ascii=False))
    return 0
