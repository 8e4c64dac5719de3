"""What a run proved, as data: `measurements.json` of a proof, and `report.json` of a run (schema 1).

`report.json` is an interface: other tools read it, so a field may be added, and none is renamed or removed without a
new schema number. All shares are fractions, all relative changes are signed (-0.45: 45 % less), latencies are
milliseconds, sizes are bytes. A figure that was not measured is null; it is never filled in.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1

Interval = tuple[float, float]
"""A 95 % bootstrap interval, low and high."""
Change = Literal["better", "worse", "no difference"]
Status = Literal["passed", "gate failed", "stage failed", "environment", "interrupted", "usage"]
Unit = Literal["fraction", "ms", "bytes", "count"]
Outcome = Literal["beats", "reproduces", "falls short", "not measured"]


class Record(BaseModel):
    """Base of every record: immutable, and strict about its fields, so that a misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class Latency(Record):
    """Milliseconds of one inference: set inputs, invoke, get outputs, batch 1, already preprocessed and quantized."""

    median: float
    median_interval: Interval
    p90: float
    p95: float
    p99: float | None = Field(None, description="only where the number of runs supports it")
    runs: int
    converged: bool = Field(description="false: a cap ended the timing before its intervals were as narrow as wanted")


class Int8Shares(Record):
    """Fractions counted from the file: bytes of weights stored as int8, multiply-accumulates on int8 operands."""

    weights: float
    macs: float


class Waterfall(Record):
    """The task's metric on the test split, step by step, so that a loss can be placed.

    `torch` is measured with the torch model and is never the quality of a file; `float_file` is the fp32 file of the
    same model and format, where the benchmark had it.
    """

    torch: float | None
    float_file: float | None
    file: float


class ParityRecord(Record):
    """File against torch module at conversion, on the same inputs; relative to the largest absolute torch output."""

    samples: int
    max_absolute: float
    max_relative: float
    signal_to_noise_db: float
    argmax_agreement: float


class Comparison(Record):
    """One measured file against another, as signed relative changes; quality is the absolute change of the metric.

    Latency is the ratio of medians, minus one, from one interleaved run; quality is paired over the test samples.
    `latency_change` and `quality_change` are `no difference` where the interval contains zero.
    """

    of: str = Field(description="key of the file that is compared with")
    bytes: float
    weight_bytes: float | None
    parameters: float
    macs: float
    latency: float | None
    latency_interval: Interval | None
    latency_change: Change | None
    quality: float
    quality_interval: Interval
    quality_change: Change


class QualityChange(Record):
    """Absolute change of the metric, paired over the test samples; `no difference` where the interval contains zero."""

    quality: float
    quality_interval: Interval
    quality_change: Change


class Measurement(Record):
    """One file on one engine: an entry of `variants`."""

    name: str = Field(description="the variant's name, without the engine")
    format: str
    precision: str
    scheme: str
    engine: str
    engine_version: str
    default_engine: bool
    threads: int
    delegate: str
    path: str = Field(description="file name; in a run's report.json, relative to the run's folder")
    sha256: str
    bytes: int
    weight_bytes: int
    parameters: int
    macs: int
    torch: str = Field(description="the torch variant it was exported from")
    lineage: tuple[str, ...]
    metric: str = Field(description="the task's main metric: `relative` and `waterfall` speak of it")
    quality: dict[str, float]
    quality_interval: dict[str, Interval]
    per_class: dict[str, dict[str, float]] = Field(description="metric by class label")
    samples: int = Field(description="test samples that the quality was measured on")
    waterfall: Waterfall
    latency_ms: Latency | None
    instructions: dict[str, int] = Field(default_factory=dict, description="by emulated processor; not a latency")
    peak_memory_bytes: int | None = Field(description="of a fresh process that loads and runs the file")
    int8_share: Int8Shares
    operators: dict[str, int]
    transposes: int
    float_islands: int
    parity: ParityRecord
    notes: dict[str, Any] = Field(default_factory=dict)
    baseline: str
    relative_to_torch: QualityChange | None = Field(description="against the torch model on the same samples")
    relative: Comparison | None = Field(description="against the baseline; null for the baseline itself")
    relative_to_float: Comparison | None = Field(description="against the fp32 file of the same model on this engine")
    relative_to_fastest_float: Comparison | None = Field(
        description="against the fastest fp32 file of the same model on any engine measured"
    )


class Machine(Record):
    """Where latencies were measured, and how busy it was: one-minute load average before and after."""

    processor: str
    cores: int
    governor: str | None
    load_before: float | None
    load_after: float | None


class Measurements(Record):
    """`measurements.json` of a proof: everything a benchmark stage measured."""

    schema_version: Literal[1] = Field(1, alias="schema")
    proof: str
    metric: str
    baseline: str
    split: Literal["test"] = "test"
    samples: int
    labels: tuple[str, ...]
    skipped: tuple[str, ...] = Field((), description="test samples that could not be read")
    threads: int
    seed: int
    machine: Machine
    torch: dict[str, dict[str, float]] = Field(description="metrics of each torch model on the same test samples")
    variants: dict[str, Measurement]


class GateResult(Record):
    """One judged condition. `passed` is decided by the point estimate; a gate that was not evaluated has failed.

    `unresolved` says that the limit lies inside the interval of the measurement: the data cannot tell which side the
    truth is on. `unit` is `fraction`, `ms`, `bytes` or `count`.
    """

    of: str
    gate: str
    metric: str | None = None
    limit: float
    limit_is: Literal["min", "max"]
    unit: Unit
    measured: float | None
    interval: Interval | None = None
    against: str | None = None
    engine: str | None = None
    passed: bool
    unresolved: bool = False
    reason: str | None = Field(None, description="why it failed, in words; null when passed")


class Verdict(Record):
    """A published claim beside what this run measured for it. Signed relative changes, like the claim."""

    claim: str
    statement: str
    claimed: float | Interval | None = Field(description="a pair is a range; null: a property without a figure")
    measured: float | None = None
    interval: Interval | None = None
    of: str | None = Field(None, description="key of the file that was measured")
    against: str | None = Field(None, description="what the ratio is against, in words")
    command: str | None = Field(None, description="what measured it: the command of the run")
    metric: str | None = None
    extension: bool = Field(False, description="measured on another task than the claim speaks of")
    verdict: Outcome
    note: str | None = None


class StageRecord(Record):
    """How one execution of a stage went."""

    id: str
    use: str
    results: tuple[str, ...]
    key: str | None = None
    cached: bool = False
    seconds: float | None = None
    error: str | None = None


class TorchRecord(Record):
    """A torch variant: its size, its scores on validation, and what its stage noted."""

    parameters: int
    macs: int
    lineage: tuple[str, ...]
    validation: dict[str, float]
    notes: dict[str, Any]


class Report(Record):
    """`report.json` of a run."""

    schema_version: Literal[1] = Field(1, alias="schema")
    name: str
    status: Status
    exit_code: int
    error: str | None = None
    started: str | None = Field(None, description="ISO 8601, UTC")
    seconds: float | None = None
    recipe: dict[str, Any]
    environment: dict[str, Any]
    stages: tuple[StageRecord, ...]
    data: dict[str, Any] = Field(default_factory=dict, description="digest and splits of the data")
    torch_variants: dict[str, TorchRecord]
    variants: dict[str, Measurement]
    machines: dict[str, Machine] = Field(description="by proof")
    gates: tuple[GateResult, ...]
    reference: tuple[Verdict, ...]
