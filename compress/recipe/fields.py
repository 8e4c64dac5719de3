"""Which keys a settings model has at a place inside it: for "did you mean" and for the tables of the documentation."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from compress.recipe.model_reference import ModelReference

Sources = Mapping[str, Any]
"""Settings models of the registered model sources, by name."""


def field_names(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys as a recipe writes them (a field's alias, where it has one)."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def keys_at(model: type[BaseModel], value: Any, path: Sequence[str | int], sources: Sources) -> set[str]:
    """The keys that are valid in the mapping at `path` of `value`, a value for `model`."""
    annotations: list[Any] = [model]
    for step in path:
        below = [item for annotation in annotations for item in _step(annotation, value, step, sources)]
        value = _item(value, step)
        annotations = below
    models = [found for annotation in annotations for found in _models(annotation)]
    keys: set[str] = set()
    for found in models:
        if issubclass(found, ModelReference):
            keys |= {"source"} | set(_source_fields(value, sources))
        else:
            keys |= set(field_names(found))
    return keys


def _step(annotation: Any, value: Any, step: str | int, sources: Sources) -> Iterator[Any]:
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, ModelReference):
            info = _source_fields(value, sources).get(str(step))
            if info is not None:
                yield info.annotation
        elif isinstance(member, type) and issubclass(member, BaseModel):
            info = field_names(member).get(str(step))
            if info is not None:
                yield info.annotation
        elif get_origin(member) in (tuple, list, dict) or isinstance(get_origin(member), type):
            yield from get_args(member)


def _source_fields(value: Any, sources: Sources) -> dict[str, FieldInfo]:
    source = value.get("source") if isinstance(value, dict) else None
    return field_names(sources[source]) if isinstance(source, str) and source in sources else {}


def _item(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None


def _members(annotation: Any) -> Iterator[Any]:
    """The alternatives of an annotation, without Annotated and Union around them."""
    if get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for member in _members(annotation):
        if isinstance(member, type) and get_origin(member) is None and issubclass(member, BaseModel):
            yield member
        elif get_origin(member) in (tuple, list):
            # One item may be written without its list.
            for argument in get_args(member):
                yield from _models(argument)
