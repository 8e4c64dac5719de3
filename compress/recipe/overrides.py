"""`--set PATH=VALUE`: values from the command line laid over a recipe.

A path names keys with dots between them; entries of a list are named by their `id`, or counted from 0:
`stages.baseline.epochs=1`, `gates.0.of=student/onnx-int8`, `data.folder=${DATA}`. The value is read like a value in
the recipe. Keys that the recipe leaves out can be set; whether they exist is checked with the rest of the recipe.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from compress.recipe.document import Document, parse
from compress.recipe.nearest import suggestion
from compress.recipe.problems import KeyPath, Place, PlacedProblem


class _PathError(ValueError):
    """The path of an override leads nowhere."""


def apply_overrides(
    document: Document, overrides: Sequence[str], environment: Mapping[str, str]
) -> tuple[Document, list[PlacedProblem]]:
    """A new document with the overrides in order, later ones last. Overrides that are wrong are in the problems."""
    result = copy.deepcopy(document)
    problems: list[PlacedProblem] = []
    if not isinstance(result.value, dict):
        return result, problems
    for position, override in enumerate(overrides):
        problems += _apply(result, override, Place(0, position, f"--set {override}"), environment)
    return result, problems


def _apply(document: Document, override: str, place: Place, environment: Mapping[str, str]) -> list[PlacedProblem]:
    dotted, equals, text = override.partition("=")
    parts = dotted.strip().split(".")
    if not equals or not all(parts):
        return [PlacedProblem(place, "expected PATH=VALUE, such as stages.baseline.epochs=1")]
    parsed = parse(text, place.origin, environment)
    if parsed.faults:
        return [PlacedProblem(place, fault.message) for faults in parsed.faults.values() for fault in faults]
    try:
        path = _store(document.value, parts, parsed.value)
    except _PathError as error:
        return [PlacedProblem(place, str(error))]
    _move_places(document, path, parsed, place)
    return []


def _store(root: Any, parts: list[str], value: Any) -> KeyPath:
    """Sets the value in place and returns its key path. Raises _PathError."""
    path: list[str | int] = []
    here = root
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if isinstance(here, dict):
            key: str | int = part
            if not last and here.get(part) is None:
                here[part] = {}
        elif isinstance(here, list):
            key = _entry(here, part, ".".join(parts[:position]))
        else:
            raise _PathError(f"'{'.'.join(parts[:position])}' holds a single value, so it has no key '{part}'")
        path.append(key)
        if last:
            here[key] = value
        else:
            here = here[key]
    return tuple(path)


def _entry(items: list[Any], part: str, where: str) -> int:
    ids = {item["id"]: index for index, item in reversed(list(enumerate(items))) if _has_id(item)}
    if part in ids:
        return ids[part]
    if part.isascii() and part.isdigit() and int(part[:9]) < len(items):
        return int(part)
    names = list(ids) or [str(index) for index in range(len(items))]
    raise _PathError(f"'{where}' has no entry '{part}'{suggestion(part, names)}")


def _has_id(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str)


def _move_places(document: Document, path: KeyPath, parsed: Document, place: Place) -> None:
    for table in (document.places, document.key_places, document.faults):
        for known in [known for known in table if known[: len(path)] == path]:
            del table[known]
    for depth in range(1, len(path) + 1):
        # Mappings that the override made on its way have no position of their own yet.
        document.places.setdefault(path[:depth], place)
        document.key_places.setdefault(path[:depth], place)
    for below in parsed.places:
        document.places[(*path, *below)] = place
    for below in parsed.key_places:
        document.key_places[(*path, *below)] = place
