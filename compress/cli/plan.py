"""`plan RECIPE`: what a run would do, without doing it."""

from __future__ import annotations

import argparse

from compress.cli.options import add_recipe, add_store

SUMMARY = "show what a run would do: stages, what is stored, predicted time and disk; touches nothing"


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compress.pipeline.plan import plan, render_plan

    print(render_plan(plan(arguments.recipe, arguments.overrides, store=arguments.store)))
    return 0
