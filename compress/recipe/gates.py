"""The gates a recipe can set, by name: one strict settings model each. How they are judged: `compress.pipeline.gates`.

A relative gate (`*_drop`, `*_reduction`) compares with the baseline of the `benchmark` stage, or with the variant that
`against` names: over the same test samples, and over latencies of one interleaved run on one engine. `engine` picks
the engine that a file was measured on, where the benchmark ran more than one; without it, the file's default engine.
"""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.recipe.types import ByteSize, Duration, EngineName, Fraction, NonNegativeInt


class GateSettings(BaseModel):
    """Base of every gate's settings: strict, immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reads: ClassVar[str]
    """What the gate looks at, in words, for the documentation table and error messages."""


class OnEngine(GateSettings):
    """A gate on what an engine did with the file."""

    engine: EngineName | None = Field(
        None, description="the engine that ran the file; default: the file's default engine"
    )


class Relative(GateSettings):
    """A gate that compares two measured files."""

    against: str | None = Field(None, description="the variant to compare with; default: the benchmark's baseline")


class Quality(OnEngine):
    """The metric on the test split is at least `min`."""

    reads: ClassVar[str] = "a metric on the test split, from the file in its engine"
    metric: str = Field(description="a metric of the task, such as `accuracy`")
    min: Fraction = Field(description="the least value that passes")


class QualityDrop(Relative, OnEngine):
    """The metric on the test split falls by at most `max` (absolute: 1% is one point), paired over samples."""

    reads: ClassVar[str] = "the paired fall of a metric on the test split against the baseline"
    metric: str = Field(description="a metric of the task, such as `accuracy`")
    max: Fraction = Field(description="the largest fall that passes; `1%` is one point")


class ClassQualityDrop(Relative, OnEngine):
    """No class falls by more than `max` (absolute), paired over the samples of the class; failures name the classes."""

    reads: ClassVar[str] = "the largest fall of any single class against the baseline"
    metric: str = Field(description="a metric of the task that is known per class, such as `accuracy`")
    max: Fraction = Field(description="the largest fall that passes; `1%` is one point")


class SizeReduction(Relative):
    """The file is smaller by at least `min` of the baseline's bytes."""

    reads: ClassVar[str] = "bytes of the file against the baseline's"
    min: Fraction = Field(description="the least reduction that passes")


class LatencyReduction(Relative, OnEngine):
    """The median latency is lower by at least `min` of the baseline's, interleaved at equal threads."""

    reads: ClassVar[str] = "median latency against the baseline's, from one interleaved run"
    min: Fraction = Field(description="the least reduction that passes")


class ParametersReduction(Relative):
    """The number of parameters is lower by at least `min`."""

    reads: ClassVar[str] = "parameters of the network against the baseline's"
    min: Fraction = Field(description="the least reduction that passes")


class MacsReduction(Relative):
    """The multiply-accumulates of one inference are fewer by at least `min`."""

    reads: ClassVar[str] = "multiply-accumulates of the network against the baseline's"
    min: Fraction = Field(description="the least reduction that passes")


class Latency(OnEngine):
    """The median latency of one inference is at most `max`."""

    reads: ClassVar[str] = "median latency on this machine"
    max: Duration = Field(gt=0, description="such as `8 ms`; a bare number is seconds")


class Size(GateSettings):
    """The file has at most `max` bytes."""

    reads: ClassVar[str] = "bytes of the file"
    max: ByteSize = Field(gt=0, description="such as `4 MiB`; a bare number is bytes")


class PeakMemory(OnEngine):
    """The peak memory of a fresh process that loads the file and runs it is at most `max`, interpreter included."""

    reads: ClassVar[str] = "peak memory of a fresh process that loads and runs the file"
    max: ByteSize = Field(gt=0, description="such as `4 MiB`; a bare number is bytes")


class Int8Share(GateSettings):
    """At least these shares of weight bytes and of multiply-accumulates are INT8, counted from the file."""

    reads: ClassVar[str] = "shares of INT8 counted from the file"
    weights: Fraction | None = Field(None, description="least share of the bytes of weights")
    macs: Fraction | None = Field(None, description="least share of the multiply-accumulates")

    @model_validator(mode="after")
    def _some_share(self) -> Self:
        if self.weights is None and self.macs is None:
            raise ValueError("expected `weights`, `macs` or both")
        return self


class Transposes(GateSettings):
    """The file holds at most `max` operators that only move axes."""

    reads: ClassVar[str] = "operators of the file that only move axes"
    max: NonNegativeInt = Field(description="the largest number that passes")


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
