"""Finds the functions of users that a recipe's models name, so that a misspelt one ends a run before it starts.

Nothing is imported and no code is run: a recipe can be judged without the packages that its functions need.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from compress.errors import RecipeError
from compress.models.builders import add_import_folder
from compress.recipe.model_reference import FUNCTION_SOURCE, ModelReference
from compress.recipe.nearest import suggestion
from compress.recipe.schema import Recipe


def check_user_code(recipe: Recipe) -> None:
    """Raises RecipeError with every function that cannot be found, in the recipe's folder or on the Python path."""
    add_import_folder(recipe.path.parent)
    importlib.invalidate_caches()
    problems = [
        f"{recipe.places.get((spec.id, setting), recipe.path)}: stage '{spec.id}': {problem}"
        for spec in recipe.stages
        for setting, function in _functions(spec.settings)
        if (problem := problem_of(function)) is not None
    ]
    if problems:
        raise RecipeError(problems)


def problem_of(function: str) -> str | None:
    """What is wrong with `package.module:function`; None when it is there, or when only running code could tell."""
    module, _, name = function.partition(":")
    try:
        spec = _find(module)
    except ValueError:  # a module that was made while running, without a specification
        return None
    if spec is None:
        return (
            f"cannot find the module '{module}' of {function}; it is looked for in the recipe's folder and on the "
            "Python path"
        )
    names = _names(Path(spec.origin)) if spec.origin is not None and spec.origin.endswith(".py") else None
    if names is None or name in names:
        return None
    return f"module '{module}' has no function '{name}'{suggestion(name, sorted(names))}"


def _functions(settings: Any) -> Iterator[tuple[str, str]]:
    for setting, value in settings:
        if isinstance(value, ModelReference) and value.source == FUNCTION_SOURCE:
            yield setting, str(value.arguments["function"])


def _find(module: str) -> ModuleSpec | None:
    """Like `importlib.util.find_spec`, which would import the parent packages."""
    top, *rest = module.split(".")
    spec, name = importlib.util.find_spec(top), top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def _names(path: Path) -> set[str] | None:
    """All names that a module's text binds, at any depth; None when they cannot be told from its text."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # importing it will say what is wrong
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
            case ast.Call(func=ast.Name(id="globals")):
                return None
    return None if names & {"*", "__getattr__"} else names
