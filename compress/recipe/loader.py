"""Loads a recipe: text, overrides, settings, names. Everything that is wrong is reported at once, with its position.

Relative paths in a recipe are taken from the working directory, as on any command line, wherever the recipe lies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compress.errors import RecipeError
from compress.recipe.document import Document, parse
from compress.recipe.gate_names import resolve_gates
from compress.recipe.names import Names, expand
from compress.recipe.nearest import suggestion
from compress.recipe.overrides import apply_overrides
from compress.recipe.problems import PlacedProblem, Problem, lines
from compress.recipe.registry import Registry
from compress.recipe.schema import GateSpec, Recipe
from compress.recipe.sections import Checker, check_data, check_gates, check_stages, check_top
from compress.recipe.tuning import TuneSpec, check_tune, resolve_tune

_SUFFIXES = {".yaml", ".yml"}


def load_recipe(
    path: str | Path, registry: Registry, overrides: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Recipe:
    """The recipe at `path`, with `--set` overrides laid over it and `${VAR}` filled in from `environment`

    (default: os.environ).

    Raises RecipeError with every problem found, one line each: `file:line:column: message`, or the text of the
    override in place of the position.
    """
    environment = os.environ if environment is None else environment
    text = read_text(Path(path))
    document = parse(text, str(path), environment)
    if document.value is None and document.faults:
        raise RecipeError(lines(document.faults[()]))
    document, problems = apply_overrides(document, overrides, environment)
    recipe = _build(Path(path), text, document, registry, problems)
    return replace(recipe, overrides=tuple(overrides), places=_places(document, recipe))


def _build(path: Path, text: str, document: Document, registry: Registry, problems: list[PlacedProblem]) -> Recipe:
    checker = Checker(registry)
    root = document.value
    check_top(root, checker)
    root = root if isinstance(root, dict) else {}
    data, canonical_data = check_data(root.get("data"), root.get("task"), checker)
    names = expand(check_stages(root.get("stages"), checker))
    gates = resolve_gates(check_gates(root.get("gates"), root.get("task"), checker), names)
    tune = resolve_tune(check_tune(root, checker), names)
    # A value that could not be read is reported once; that None is not what its setting expects is no news.
    found = [_place(p, document) for p in (*checker.problems, *names.problems) if not document.unread(p.path)]
    problems = [*(fault for group in document.faults.values() for fault in group), *problems, *found]
    if problems:
        raise RecipeError(lines(problems))
    name = root.get("name") or _name_of(path)
    return Recipe(
        path=path,
        name=name,
        seed=root.get("seed", 0),
        task=root["task"],
        data=data,
        target=root.get("target", "host"),
        stages=tuple(names.specs.values()),
        nodes=tuple(names.nodes),
        gates=gates,
        reference=root.get("reference"),
        canonical=_canonical(root, name, canonical_data, names, gates) | _canonical_tune(tune),
        text=text,
        tune=tune,
    )


def _places(document: Document, recipe: Recipe) -> dict[tuple[str, str], str]:
    """`file:line:column` of every setting of every stage, those with default values included."""
    return {
        (stage["id"], setting): str(document.place(("stages", index, setting)))
        for index, stage in enumerate(recipe.canonical["stages"])
        for setting in stage
    }


def _canonical(
    root: dict[str, Any], name: str, data: dict[str, Any], names: Names, gates: tuple[GateSpec, ...]
) -> dict[str, Any]:
    """The recipe with every default filled in: two recipes that mean the same give the same."""
    return {
        "recipe": 1,
        "name": name,
        "seed": root.get("seed", 0),
        "task": root["task"],
        "data": data,
        "target": root.get("target", "host"),
        "stages": [
            {"id": spec.id, "use": spec.use, "from": list(spec.parents), "as": spec.name_template}
            | spec.settings.model_dump(mode="json", by_alias=True)
            for spec in (names.specs[stage] for stage in names.entries)
        ],
        "gates": [
            {"of": gate.of}
            | {key: settings.model_dump(mode="json", by_alias=True) for key, settings in gate.conditions.items()}
            for gate in gates
        ],
        "reference": root.get("reference"),
    }


def _canonical_tune(tune: TuneSpec | None) -> dict[str, Any]:
    if tune is None:
        return {}
    written = tune.settings.model_dump(mode="json")
    return {"tune": written | {"space": tune.space.to_json(), "of": tune.of}}


def read_text(path: Path) -> str:
    """The text of a recipe. Raises RecipeError when there is none, with the nearest file beside it."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = path.read_bytes()[: error.start]
        line = before.count(b"\n") + 1
        raise RecipeError([f"{path}:{line}:1: not UTF-8 text (byte {error.start})"]) from None
    except IsADirectoryError:
        raise RecipeError([f"{path}: is a folder, not a recipe{_nearby(path / 'x', path)}"]) from None
    except FileNotFoundError:
        raise RecipeError([f"{path}: no such file{_nearby(path, path.parent)}"]) from None
    except (OSError, ValueError) as error:
        raise RecipeError([f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from None


def _nearby(path: Path, folder: Path) -> str:
    try:
        recipes = [str(file) for file in folder.iterdir() if file.suffix in _SUFFIXES]
    except OSError:
        return ""
    return suggestion(str(path), recipes)


def _name_of(path: Path) -> str:
    """A run's name from the recipe's file name."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in path.stem).strip("-_")
    return kept[:100] or "recipe"


def _place(problem: Problem, document: Document) -> PlacedProblem:
    return PlacedProblem(document.place(problem.path, problem.at_key), problem.message)
