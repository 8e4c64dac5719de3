"""Types for settings: they take what people write in a recipe and give fractions, seconds, bytes and tuples.

All work in strict models (`StageSettings`), from Python values and from JSON. Every error says what was expected.
Shares are fractions inside; a recipe may say `72%` or `0.72`.
"""

from __future__ import annotations

import math
import os
import re
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from compress.recipe.nearest import nearest, suggestion

T = TypeVar("T")

_MOST_COMPARED = 1000

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PERCENT = re.compile(rf"\s*({_NUMBER})\s*%\s*")
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: float, expected: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"expected {expected}")
    return value


def parse_percent(value: Any) -> Any:
    """`"72%"` becomes 0.72 (the same float as the literal 0.72); numbers pass. Raises ValueError for the rest."""
    expected = "a fraction like 0.72 or a percentage like 72%"
    if _is_number(value):
        return _finite(float(value), expected)
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected {expected}")
    # Decimal shift in text: 91.7 / 100 is not the float that 0.917 is.
    mantissa, _, exponent = match.group(1).replace("_", "").lower().partition("e")
    return _finite(float(f"{mantissa}e{int(exponent or 0) - 2}"), expected)


def parse_duration(value: Any) -> Any:
    """Seconds from a number or from `250ms`, `30s`, `5min`, `2h`, `1d`. Raises ValueError for the rest."""
    return _finite(_quantity(value, _SECONDS, "seconds as a number, or a duration like 30s, 5min or 2h"), "a duration")


def parse_bytes(value: Any) -> Any:
    """Bytes from an integer or from `500MB` (powers of 1000) or `4GiB` (powers of 1024). Raises ValueError."""
    expected = "bytes as a whole number, or a size like 500MB or 4GiB"
    size = _finite(_quantity(value, _BYTES, expected), expected)
    if size != int(size):
        raise ValueError(f"expected {expected}")
    return int(size)


def _quantity(value: Any, units: dict[str, float] | dict[str, int], expected: str) -> float:
    if _is_number(value):
        return value
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match.group(2) not in units:
        raise ValueError(f"expected {expected}")
    return float(match.group(1).replace("_", "")) * units[match.group(2)]


def _path(kind: str) -> PlainValidator:
    def validate(value: Any, info: ValidationInfo) -> Path:
        if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
            raise ValueError(f"expected the path of a {kind}")
        path = Path(value).expanduser()
        if (info.context or {}).get("check_paths"):
            _check_path(path, kind)
        return path

    return PlainValidator(validate)


def _check_path(path: Path, kind: str) -> None:
    where = "" if path.is_absolute() else f" (relative paths are taken from the working directory, {Path.cwd()})"
    if not path.exists():
        close = nearest(path.name, _names_beside(path))
        hint = f"; did you mean '{path.with_name(close)}'?" if close else ""
        raise ValueError(f"{kind} '{path}' does not exist{where}{hint}")
    if path.is_dir() != (kind == "folder"):
        raise ValueError(f"'{path}' is not a {kind}{where}")


def _names_beside(path: Path) -> list[str]:
    try:
        with os.scandir(path.parent) as entries:
            return [entry.name for entry in islice(entries, _MOST_COMPARED)]
    except OSError:
        return []


class _AsTuple:
    """One value or a list of them becomes a tuple."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._tuple, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        many = handler(schema)
        return {"anyOf": [many["items"], many]}

    @staticmethod
    def _tuple(value: Any) -> Any:
        return tuple(value) if isinstance(value, list | tuple) else (value,)


def _schema(form: str, pattern: str, **number: Any) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [number, {"type": "string", "format": form, "pattern": pattern}]})


_PERCENT_SCHEMA = r"^\s*[-+]?[0-9_.]+([eE][-+]?[0-9]+)?\s*%\s*$"
_QUANTITY_SCHEMA = r"^\s*[-+]?[0-9_.]+([eE][-+]?[0-9]+)?\s*({})\s*$"

Fraction = Annotated[
    float,
    Field(ge=0, le=1),
    BeforeValidator(parse_percent),
    _schema("percentage", _PERCENT_SCHEMA, type="number", minimum=0, maximum=1),
]
"""A share, 0 to 1: `0.72` or `72%`."""

SignedFraction = Annotated[
    float,
    BeforeValidator(parse_percent),
    _schema("percentage", _PERCENT_SCHEMA, type="number"),
]
"""A relative change of any sign and size: `-0.05`, `150%`."""

Duration = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(parse_duration),
    _schema("time-span", _QUANTITY_SCHEMA.format("|".join(_SECONDS)), type="number", minimum=0),
]
"""Seconds: `90`, `30s`, `5min`, `2h`."""

ByteSize = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(parse_bytes),
    _schema("byte-size", _QUANTITY_SCHEMA.format("|".join(_BYTES)), type="integer", minimum=0),
]
"""Bytes: `4096`, `500MB`, `4GiB`."""

PositiveInt = Annotated[StrictInt, Field(ge=1)]
NonNegativeInt = Annotated[StrictInt, Field(ge=0)]
PositiveFloat = Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
FiniteFloat = Annotated[StrictFloat, Field(allow_inf_nan=False)]
Boolean = StrictBool
"""`true` or `false` only: YAML 1.1's `yes`, `on`, `off` are strings here."""
Text = Annotated[StrictStr, Field(min_length=1)]

OneOrMany = Annotated[tuple[T, ...], Field(min_length=1), _AsTuple()]
"""`OneOrMany[X]`: one X or a list of X in the recipe, a non-empty tuple of X in the program."""
Listed = Annotated[tuple[T, ...], _AsTuple()]
"""`Listed[X]`: the same, and the list may be empty. Use these for lists: strict models refuse a list for a tuple."""


def _known_engine(name: str, info: ValidationInfo) -> str:
    if (info.context or {}).get("check_engines"):
        from edge_runtime.engines import engine_specs

        if name not in engine_specs():
            raise ValueError(f"unknown engine '{name}'{suggestion(name, engine_specs())}")
    return name


EngineName = Annotated[Text, AfterValidator(_known_engine)]
"""The name of an engine. It must be known, though not installed, when the recipe is loaded."""

_PATH_TEXT = (PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "format": "path"}))
InputFile = Annotated[Path, _path("file"), *_PATH_TEXT]
"""A file that a stage reads. It must exist when the recipe is loaded; read back from the store it is not checked."""
InputFolder = Annotated[Path, _path("folder"), *_PATH_TEXT]
"""A folder that a stage reads, checked like `InputFile`. Both stay as written: relative to the working directory."""
