"""`validate RECIPE`: every problem of a recipe at once, and nothing else."""

from __future__ import annotations

import argparse

from compress.cli.options import add_recipe

SUMMARY = "check a recipe: every problem at once, with its position"


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compress.pipeline.registry import installed_registry
    from compress.pipeline.user_code import check_user_code
    from compress.recipe.loader import load_recipe

    recipe = load_recipe(arguments.recipe, installed_registry(), arguments.overrides)
    check_user_code(recipe)
    results = sum(len(node.results) for node in recipe.nodes)
    print(f"{recipe.path}: valid; stages: {len(recipe.stages)}, results: {results}, gates: {len(recipe.gates)}")
    return 0
