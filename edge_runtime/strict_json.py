"""Frozen dataclasses to JSON and back, strictly: an unknown key, a missing key or a wrong type is an error.

Handles what contracts are made of: `str`, `int`, `float`, `bool`, `Literal` of strings, `tuple[X, ...]`, dataclasses,
and `X | None`. Numbers that a float field holds must be finite: JSON has no NaN.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from edge_runtime.nearest import suggestion

T = TypeVar("T")


class StrictJsonError(ValueError):
    """The message starts with the key, e.g. `inputs[0].shape: expected a list, got 3`."""


def encode(value: Any) -> Any:
    """A dataclass, tuple or scalar as plain JSON data. Fields keep their order; tuples become lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(expected: type[T], data: Any, where: str = "") -> T:
    """Plain JSON data as an instance of the dataclass `expected`.

    Raises:
        StrictJsonError: names the key (`where` is prepended), what was expected, and the nearest valid name.
    """
    if not isinstance(data, dict):
        raise _mismatch(where, "an object", data)
    fields = {field.name: field for field in dataclasses.fields(expected)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise StrictJsonError(f"{_join(where, str(key))}: unknown key{suggestion(str(key), fields)}")
    hints = typing.get_type_hints(expected)
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _value(hints[name], data[name], _join(where, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise StrictJsonError(f"{_join(where, name)}: required key is missing")
    return expected(**values)


def _value(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (part for part in typing.get_args(hint) if part is not type(None))
        return None if data is None else _value(inner, data, where)
    if origin is Literal:
        return _choice(typing.get_args(hint), data, where)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise _mismatch(where, "a list", data)
        item = typing.get_args(hint)[0]
        return tuple(_value(item, entry, f"{where}[{index}]") for index, entry in enumerate(data))
    if dataclasses.is_dataclass(hint):
        return decode(typing.cast(type[Any], hint), data, where)
    return _SCALARS[hint](data, where)


def _choice(choices: tuple[str, ...], data: Any, where: str) -> str:
    if isinstance(data, str) and data in choices:
        return data
    hint = suggestion(data, choices) if isinstance(data, str) else f"; expected one of {', '.join(choices)}"
    raise StrictJsonError(f"{where}: unknown value {_short(data)}{hint}")


def _string(data: Any, where: str) -> str:
    if not isinstance(data, str):
        raise _mismatch(where, "a string", data)
    return data


def _boolean(data: Any, where: str) -> bool:
    if not isinstance(data, bool):
        raise _mismatch(where, "true or false", data)
    return data


def _integer(data: Any, where: str) -> int:
    if isinstance(data, bool) or not isinstance(data, int):
        raise _mismatch(where, "a whole number", data)
    return data


def _number(data: Any, where: str) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        raise _mismatch(where, "a finite number", data)
    return float(data)


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {str: _string, bool: _boolean, int: _integer, float: _number}


def _mismatch(where: str, expected: str, data: Any) -> StrictJsonError:
    return StrictJsonError(f"{where or 'document'}: expected {expected}, got {_short(data)}")


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
