"""A JSON Schema (draft 2020-12) of recipes, for editors: made from the models that validate, so it cannot differ.

It knows the form of every key. What needs more than the form (names that must exist, files, values that depend on
each other) is left to `edgepress validate`. A variable (`${NAME}`) is accepted wherever a number or a choice is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from compress.recipe.gates import GATES
from compress.recipe.grammar import GateGrammar, RecipeGrammar, StageGrammar
from compress.recipe.model_reference import FUNCTION_PATTERN, ModelReference
from compress.recipe.registry import Registry
from compress.recipe.tuning import TuneGrammar

_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_REFERENCES = "#/$defs/"

Schema = dict[str, Any]


def recipe_schema(registry: Registry) -> Schema:
    """The schema of a whole recipe with what the registry holds."""
    definitions: dict[str, Schema] = {}
    schema = _of_model(RecipeGrammar, "", definitions)
    properties = schema["properties"]
    properties["task"]["enum"] = sorted(registry.tasks)
    properties["target"]["enum"] = list(registry.targets)
    properties["reference"] = {"enum": [*registry.references, None], **_described(properties["reference"])}
    properties["data"] = _data(registry, definitions) | _described(properties["data"])
    properties["stages"]["items"] = _stages(registry, definitions)
    properties["gates"]["items"] = _gates(definitions)
    properties["tune"] = {"anyOf": [_tune(definitions), {"type": "null"}], **_described(properties["tune"])}
    definitions["ModelReference"] = _model_reference(registry, definitions)
    schema |= {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Edgepress recipe",
        "$defs": dict(sorted(definitions.items())),
    }
    return _map(schema, _accept_variable)


def _of_model(model: type[BaseModel], prefix: str, definitions: dict[str, Schema]) -> Schema:
    """The schema of one model. Its nested definitions go to `definitions` under `prefix`, except ModelReference."""
    schema = model.model_json_schema(ref_template=f"{_REFERENCES}{prefix}{{model}}")
    nested = schema.pop("$defs", {})
    shared = f"{_REFERENCES}{prefix}{ModelReference.__name__}"
    for name, definition in nested.items():
        if name != ModelReference.__name__:
            definitions[prefix + name] = _replace_reference(definition, shared)
    schema.pop("title", None)
    return _replace_reference(schema, shared)


def _replace_reference(schema: Schema, shared: str) -> Schema:
    def replace(node: Schema) -> Schema:
        return node | {"$ref": f"{_REFERENCES}ModelReference"} if node.get("$ref") == shared else node

    return _map(schema, replace)


def _choice(key: str, options: Mapping[str, Schema], rest: Schema) -> Schema:
    """A mapping whose other keys depend on `key`. `if`/`then` makes editors complain about the right alternative."""
    branches = [
        {"if": {"properties": {key: {"const": name}}, "required": [key]}, "then": {"$ref": reference["$ref"]}}
        for name, reference in options.items()
    ]
    keys = {"type": "object", "required": [key], "properties": {key: {"enum": sorted(options)}}}
    return {**keys, **rest, "allOf": branches}


def _with_key(schema: Schema, key: str, name: str) -> Schema:
    """The schema of a source's settings together with the key that chose it."""
    properties = {key: {"const": name}, **{k: v for k, v in schema.get("properties", {}).items() if k != key}}
    return schema | {"properties": properties, "required": [key, *(k for k in schema.get("required", []) if k != key)]}


def _sources(kind: str, sources: Mapping[str, Any], definitions: dict[str, Schema]) -> Schema:
    options = {}
    for name, model in sorted(sources.items()):
        key = f"{kind}.{name}"
        definitions[key] = _with_key(_of_model(model, f"{key}.", definitions), "source", name)
        options[name] = {"$ref": _pointer(key)}
    return _choice("source", options, {})


def _data(registry: Registry, definitions: dict[str, Schema]) -> Schema:
    for task in sorted(registry.data_sources):
        definitions[f"data.{task}"] = _sources(f"data.{task}", registry.data_sources[task], definitions)
    options = [{"$ref": _pointer(f"data.{task}")} for task in sorted(registry.data_sources)]
    return options[0] if len(options) == 1 else {"anyOf": options}


def _model_reference(registry: Registry, definitions: dict[str, Schema]) -> Schema:
    short = {"type": "string", "pattern": f"^{FUNCTION_PATTERN}$", "description": "package.module:function"}
    return {"anyOf": [short, _sources("model", registry.model_sources, definitions)]}


def _stages(registry: Registry, definitions: dict[str, Schema]) -> Schema:
    grammar = _of_model(StageGrammar, "", definitions)
    options = {}
    for use, stage in sorted(registry.stages.items()):
        key = f"stage.{use}"
        own = _of_model(stage.Settings, f"{key}.", definitions)
        definitions[key] = own | {
            "properties": grammar["properties"] | own.get("properties", {}) | {"use": {"const": use}},
            "required": [*grammar["required"], *own.get("required", [])],
        }
        options[use] = {"$ref": _pointer(key)}
    return _choice("use", options, {"required": list(grammar["required"])})


def _gates(definitions: dict[str, Schema]) -> Schema:
    grammar = _of_model(GateGrammar, "", definitions)
    for name, model in GATES.items():
        key = f"gate.{name}"
        definitions[key] = _of_model(model, f"{key}.", definitions)
        grammar["properties"][name] = {"$ref": _pointer(key)}
    return grammar | {"minProperties": 2}


def _tune(definitions: dict[str, Schema]) -> Schema:
    schema = _of_model(TuneGrammar, "tune.", definitions)
    choices: Schema = {"type": "array", "minItems": 1}
    numbers: Schema = {name: {"type": "number"} for name in ("low", "high", "step")}
    bounds: Schema = {
        "type": "object",
        "properties": {**numbers, "log": {"type": "boolean"}},
        "required": ["low", "high"],
        "additionalProperties": False,
    }
    schema["properties"]["space"] = {
        "anyOf": [{"type": "object", "additionalProperties": {"anyOf": [choices, bounds]}}, {"type": "null"}],
        **_described(schema["properties"]["space"]),
    }
    return schema


def _pointer(key: str) -> str:
    return _REFERENCES + key.replace("~", "~0").replace("/", "~1")


def _described(schema: Schema) -> Schema:
    return {key: schema[key] for key in ("description",) if key in schema}


def _map(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Changes a schema and those inside it, from the inside out. What is no schema (`if`, defaults) stays."""
    result: Schema = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties", "$defs"):
            result[key] = {name: _map(below, change) for name, below in value.items()}
        elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            result[key] = [_map(below, change) for below in value]
        elif key in ("items", "additionalProperties", "then") and isinstance(value, dict):
            result[key] = _map(value, change)
        else:
            result[key] = value
    return change(result)


def _accept_variable(schema: Schema) -> Schema:
    if schema.get("type") not in ("integer", "number", "boolean") and "enum" not in schema:
        return schema
    outside: Schema = {key: schema[key] for key in ("default", "description", "title") if key in schema}
    return {"anyOf": [{key: value for key, value in schema.items() if key not in outside}, _VARIABLE], **outside}
