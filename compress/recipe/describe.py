"""What a recipe can name, with every key: the tables of `edgepress stages` and of the documentation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from compress.errors import RecipeError
from compress.recipe.gates import GATES
from compress.recipe.grammar import RecipeGrammar, StageGrammar
from compress.recipe.nearest import suggestion
from compress.recipe.registry import Registry
from compress.recipe.tuning import TuneGrammar

Kind = Literal["recipe", "stage", "task", "model source", "data source", "gate", "tune"]
_DEEPEST = 4


@dataclass(frozen=True)
class Key:
    """One key. `name` has dots for keys inside keys. `default` is as a recipe would write it, None if required."""

    name: str
    type: str
    default: str | None
    description: str


@dataclass(frozen=True)
class Entry:
    """One thing that a recipe can name."""

    kind: Kind
    name: str
    summary: str
    keys: tuple[Key, ...]


def describe(registry: Registry) -> tuple[Entry, ...]:
    """Everything that the registry holds, and the grammar around it."""
    return tuple(_entries(registry))


def find(entries: Sequence[Entry], name: str) -> tuple[Entry, ...]:
    """The entries of this name, of whichever kind. Raises RecipeError with the nearest name when there is none."""
    found = tuple(entry for entry in entries if entry.name == name)
    if not found:
        raise RecipeError([f"nothing is called '{name}'{suggestion(name, {entry.name for entry in entries})}"])
    return found


def _entries(registry: Registry) -> Iterator[Entry]:
    yield _entry("recipe", "recipe", RecipeGrammar)
    yield _entry("stage", "(every stage)", StageGrammar)
    for name, stage in sorted(registry.stages.items()):
        yield _entry("stage", name, stage.Settings, _module_summary(type(stage)))
    for name, task in sorted(registry.tasks.items()):
        yield Entry("task", name, _module_summary(type(task)) or _summary(type(task).__doc__), ())
    for name, settings in sorted(registry.model_sources.items()):
        yield _entry("model source", name, settings)
    for task in sorted(registry.data_sources):
        for name, settings in sorted(registry.data_sources[task].items()):
            yield _entry("data source", name, settings, _module_summary(settings))
    for name, settings in GATES.items():
        yield _entry("gate", name, settings)
    yield _entry("tune", "tune", TuneGrammar)


def _entry(kind: Kind, name: str, settings: type[BaseModel], summary: str = "") -> Entry:
    schema = settings.model_json_schema()
    summary = summary or _summary(settings.__doc__)
    keys = tuple(key for key in _keys(schema, schema.get("$defs", {}), "", 0) if key.name != "source")
    return Entry(kind, name, summary, keys)


def _keys(schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str, depth: int) -> Iterator[Key]:
    required = schema.get("required", [])
    for name, below in schema.get("properties", {}).items():
        nested = _nested(below, definitions) if depth < _DEEPEST else None
        yield Key(
            name=prefix + name,
            type=type_text(below, definitions),
            default=None if name in required else _written(below.get("default")),
            description=_flat(below.get("description", "")),
        )
        if nested is not None:
            yield from _keys(nested, definitions, f"{prefix}{name}.", depth + 1)


def _nested(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The model that a key holds, directly, optionally, or in a list."""
    if "$ref" in schema:
        definition: Mapping[str, Any] = definitions[schema["$ref"].rpartition("/")[2]]
        return definition if definition.get("properties") and not definition.get("additionalProperties") else None
    for below in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        found = _nested(below, definitions)
        if found is not None:
            return found
    return None


def type_text(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """What a key takes, in a few words, from its JSON Schema."""
    if "anyOf" in schema:
        parts = dict.fromkeys(type_text(below, definitions) for below in schema["anyOf"])
        return " or ".join(part for part in parts if part != "null")
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "model" if name == "ModelReference" else type_text(definitions[name], definitions)
    if "enum" in schema or "const" in schema:
        return ", ".join(_written(value) for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_text(schema.get('items', {}), definitions)}"
    if kind in ("integer", "number"):
        return ("whole number" if kind == "integer" else "number") + _bounds(schema)
    if kind == "string":
        return str(schema.get("format", "text"))
    return {"boolean": "true or false", "object": "mapping", "null": "null"}.get(str(kind), "any")


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    found = [f"{sign} {schema[key]}" for key, sign in words.items() if key in schema]
    return f" {', '.join(found)}" if found else ""


def _written(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _module_summary(thing: type) -> str:
    """What the module of a stage, task or data source says: there is one file for each of them."""
    return _summary(getattr(sys.modules.get(thing.__module__), "__doc__", None))


def _summary(documentation: str | None) -> str:
    return _flat((documentation or "").strip().split("\n\n")[0])


def _flat(text: str) -> str:
    return " ".join(text.split())
