"""The gates a recipe can set, by name: one strict settings model each. How they are judged: `compress.pipeline.gates`.

A relative gate (`*_drop`, `*_reduction`) compares with the baseline of the `benchmark` stage, or with the variant that
`against` names: over the same test samples, and over latencies of one interleaved run on one engine. `engine` picks
the engine that a file was measured on, where the benchmark ran more than one; without it, the file's default engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from compress.recipe.types import Fraction

Share = Annotated[Fraction, Field(ge=0, le=1)]

_MILLISECONDS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ]+)\s*")


def _quantity(value: Any, units: Mapping[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise ValueError(f"expected a number with a unit ({', '.join(units)}), such as {example!r}, got {value!r}")
    return float(match[1]) * units[match[2]]


def parse_milliseconds(value: Any) -> float:
    """`"8 ms"`, `"900 us"`, `"1.5 s"` to milliseconds; numbers are taken as milliseconds already parsed.

    Raises ValueError for another unit or form.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return _quantity(value, _MILLISECONDS, "8 ms")


def parse_bytes(value: Any) -> int:
    """`"4 MiB"`, `"900 kB"` to bytes (kB, MB, GB are powers of 1000); whole numbers are bytes already.

    Raises ValueError for another unit or form.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return round(_quantity(value, _BYTES, "4 MiB"))


Milliseconds = Annotated[
    float,
    BeforeValidator(parse_milliseconds, json_schema_input_type=str | float),
    Field(gt=0, description="a duration with its unit, such as `8 ms`; a bare number is milliseconds"),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes, json_schema_input_type=str | int),
    Field(gt=0, description="a size with its unit, such as `4 MiB`; a bare whole number is bytes"),
]


class GateSettings(BaseModel):
    """Base of every gate's settings: strict, immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reads: ClassVar[str]
    """What the gate looks at, in words, for the documentation table and error messages."""


class _OnEngine(GateSettings):
    engine: str | None = Field(None, description="the engine that ran the file; default: the file's default engine")


class _Relative(GateSettings):
    against: str | None = Field(None, description="the variant to compare with; default: the benchmark's baseline")


class Quality(_OnEngine):
    """The metric on the test split is at least `min`."""

    reads: ClassVar[str] = "a metric on the test split, from the file in its engine"
    metric: str = Field(description="a metric of the task, such as `accuracy`")
    min: Share


class QualityDrop(_Relative, _OnEngine):
    """The metric on the test split falls by at most `max` (absolute: 1% is one point), paired over samples."""

    reads: ClassVar[str] = "the paired fall of a metric on the test split against the baseline"
    metric: str = Field(description="a metric of the task, such as `accuracy`")
    max: Share


class ClassQualityDrop(_Relative, _OnEngine):
    """No class falls by more than `max` (absolute), paired over the samples of the class; failures name the classes."""

    reads: ClassVar[str] = "the largest fall of any single class against the baseline"
    metric: str = Field(description="a metric of the task that is known per class, such as `accuracy`")
    max: Share


class SizeReduction(_Relative):
    """The file is smaller by at least `min` of the baseline's bytes."""

    reads: ClassVar[str] = "bytes of the file against the baseline's"
    min: Share


class LatencyReduction(_Relative, _OnEngine):
    """The median latency is lower by at least `min` of the baseline's, interleaved at equal threads."""

    reads: ClassVar[str] = "median latency against the baseline's, from one interleaved run"
    min: Share


class ParametersReduction(_Relative):
    """The number of parameters is lower by at least `min`."""

    reads: ClassVar[str] = "parameters of the network against the baseline's"
    min: Share


class MacsReduction(_Relative):
    """The multiply-accumulates of one inference are fewer by at least `min`."""

    reads: ClassVar[str] = "multiply-accumulates of the network against the baseline's"
    min: Share


class Latency(_OnEngine):
    """The median latency of one inference is at most `max`."""

    reads: ClassVar[str] = "median latency on this machine"
    max: Milliseconds


class Size(GateSettings):
    """The file has at most `max` bytes."""

    reads: ClassVar[str] = "bytes of the file"
    max: Bytes


class PeakMemory(_OnEngine):
    """A fresh process that loads the file and runs it once holds at most `max` bytes more than before loading."""

    reads: ClassVar[str] = "peak memory of a fresh process that loads and runs the file"
    max: Bytes


class Int8Share(GateSettings):
    """At least these shares of weight bytes and of multiply-accumulates are INT8, counted from the file."""

    reads: ClassVar[str] = "shares of INT8 counted from the file"
    weights: Share | None = Field(None, description="least share of the bytes of weights")
    macs: Share | None = Field(None, description="least share of the multiply-accumulates")

    @model_validator(mode="after")
    def _some_share(self) -> Self:
        if self.weights is None and self.macs is None:
            raise ValueError("expected `weights`, `macs` or both")
        return self


class Transposes(GateSettings):
    """The file holds at most `max` operators that only move axes."""

    reads: ClassVar[str] = "operators of the file that only move axes"
    max: int = Field(ge=0)


GATES: dict[str, type[GateSettings]] = {
    "quality": Quality,
    "quality_drop": QualityDrop,
    "class_quality_drop": ClassQualityDrop,
    "size_reduction": SizeReduction,
    "latency_reduction": LatencyReduction,
    "parameters_reduction": ParametersReduction,
    "macs_reduction": MacsReduction,
    "latency": Latency,
    "size": Size,
    "peak_memory": PeakMemory,
    "int8_share": Int8Share,
    "transposes": Transposes,
}
"""Every gate by the name it has in a recipe."""


def gate_references(settings: GateSettings) -> tuple[str, ...]:
    """Names of further variants that a gate's settings refer to, to be resolved like `of`."""
    against = getattr(settings, "against", None)
    return () if against is None else (against,)
