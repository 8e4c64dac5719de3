"""Judging gates on what the benchmark measured. A gate that cannot be evaluated has failed, and says why.

The point estimate decides; where the limit lies inside the measurement's 95 % interval the result is flagged
`unresolved`, because the samples cannot tell on which side of the limit the truth is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compress.recipe import gates as settings
from compress.recipe.schema import GateSpec
from compress.report import text
from compress.report.comparison import class_drops, compare
from compress.report.model import Comparison, GateResult, Interval, Measurement, Unit
from compress.report.proof import MeasuredProof

_ROUNDING = 1e-9
"""Differences of shares carry floating-point noise: a drop of exactly the limit passes."""


@dataclass(frozen=True)
class _Reading:
    """One number to be judged. `value` None with a `missing` reason when it could not be read."""

    limit: float
    limit_is: Literal["min", "max"]
    unit: Unit
    value: float | None
    interval: Interval | None = None
    metric: str | None = None
    missing: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class _Subject:
    """What a gate looks at: one measured file, and the one it is compared with (itself, when there is none)."""

    proof: MeasuredProof
    key: str
    against: str

    @property
    def measurement(self) -> Measurement:
        return self.proof[self.key]

    def comparison(self) -> Comparison:
        return compare(self.proof, self.key, self.against)


def evaluate_gates(gates: Sequence[GateSpec], proofs: Sequence[MeasuredProof]) -> tuple[GateResult, ...]:
    """Judges every condition of every gate; `int8_share` gives one result for each share that it limits.

    `proofs` are those of the recipe's benchmark stages, in order; a gate is judged on the first in which all that it
    needs was measured. The result has at least one entry for each condition, whatever is missing.
    """
    return tuple(
        result
        for gate in gates
        for name, condition in gate.conditions.items()
        for result in _evaluate(gate.of, name, condition, proofs)
    )


def all_passed(results: Sequence[GateResult]) -> bool:
    """Whether no gate failed. True when there are none."""
    return all(result.passed for result in results)


def _evaluate(of: str, name: str, condition: Any, proofs: Sequence[MeasuredProof]) -> list[GateResult]:
    engine = getattr(condition, "engine", None)
    subject, missing = _find(of, engine, condition, proofs)
    if subject is None:
        return [_not_evaluated(of, name, condition, missing)]
    try:
        readings = _READERS[type(condition)](subject, condition)
    except Exception as error:
        # Whatever goes wrong while a gate is read, it must end as a failed gate and never as a passed run.
        return [_not_evaluated(of, name, condition, f"could not be evaluated: {type(error).__name__}: {error}")]
    against = subject.against if isinstance(condition, settings.Relative) else None
    return [_judge(of, name, reading, against, subject.measurement.engine) for reading in readings]


def _find(of: str, engine: str | None, condition: Any, proofs: Sequence[MeasuredProof]) -> tuple[_Subject | None, str]:
    """The measured file, or None and the reason why there is none."""
    if not proofs:
        return None, "nothing was measured: the recipe has no benchmark stage that ran"
    on = f" on {engine}" if engine is not None else ""
    missing = f"{of} was not measured{on} by any benchmark stage"
    relative = isinstance(condition, settings.Relative)
    for proof in proofs:
        key = proof.find(of, engine)
        if key is None:
            continue
        if not relative:
            return _Subject(proof, key, key), ""
        named = condition.against
        if named is None:
            against: str | None = proof.measurements.baseline
        else:
            # The same engine where it ran the other file too: an INT8 file is compared with its own engine's float.
            against = proof.find(named, proof[key].engine) or proof.find(named)
        if against is not None:
            return _Subject(proof, key, against), ""
        missing = f"{named}, which {of} is compared with, was not measured in the same benchmark"
    return None, missing


def _quality(subject: _Subject, condition: settings.Quality) -> list[_Reading]:
    measurement = subject.measurement
    value = measurement.quality.get(condition.metric)
    return [
        _Reading(
            limit=condition.min,
            limit_is="min",
            unit="fraction",
            value=value,
            interval=measurement.quality_interval.get(condition.metric),
            metric=condition.metric,
            missing=None if value is not None else _no_metric(measurement, condition.metric),
        )
    ]


def _quality_drop(subject: _Subject, condition: settings.QualityDrop) -> list[_Reading]:
    measurement = subject.measurement
    common: dict[str, Any] = {"limit": condition.max, "limit_is": "max", "unit": "fraction", "metric": condition.metric}
    if condition.metric != measurement.metric:
        return [_Reading(**common, value=None, missing=_no_metric(measurement, condition.metric))]
    comparison = subject.comparison()
    low, high = comparison.quality_interval
    return [_Reading(**common, value=-comparison.quality, interval=(-high, -low))]


def _class_quality_drop(subject: _Subject, condition: settings.ClassQualityDrop) -> list[_Reading]:
    measurement = subject.measurement
    common: dict[str, Any] = {"limit": condition.max, "limit_is": "max", "unit": "fraction", "metric": condition.metric}
    if condition.metric not in measurement.per_class:
        return [_Reading(**common, value=None, missing=_no_metric(measurement, condition.metric, per_class=True))]
    drops = class_drops(subject.proof, subject.key, subject.against)
    worst = max(drops, key=lambda drop: drop.drop)
    over = [f"{drop.label} by {text.percent(drop.drop)}" for drop in drops if drop.drop > condition.max + _ROUNDING]
    detail = f"classes that fell further: {', '.join(over)}" if over else None
    return [_Reading(**common, value=worst.drop, interval=worst.interval, detail=detail)]


def _reduction(attribute: Literal["bytes", "parameters", "macs"]) -> Callable[[_Subject, Any], list[_Reading]]:
    def read(subject: _Subject, condition: Any) -> list[_Reading]:
        value = -getattr(subject.comparison(), attribute)
        return [_Reading(limit=condition.min, limit_is="min", unit="fraction", value=value)]

    return read


def _latency_reduction(subject: _Subject, condition: settings.LatencyReduction) -> list[_Reading]:
    comparison = subject.comparison()
    common: dict[str, Any] = {"limit": condition.min, "limit_is": "min", "unit": "fraction"}
    if comparison.latency is None or comparison.latency_interval is None:
        return [_Reading(**common, value=None, missing="the two latencies were not measured in one interleaved run")]
    low, high = comparison.latency_interval
    return [_Reading(**common, value=-comparison.latency, interval=(-high, -low))]


def _latency(subject: _Subject, condition: settings.Latency) -> list[_Reading]:
    latency = subject.measurement.latency_ms
    common: dict[str, Any] = {"limit": condition.max * 1e3, "limit_is": "max", "unit": "ms"}
    if latency is None:
        return [_Reading(**common, value=None, missing="its latency was not measured")]
    return [_Reading(**common, value=latency.median, interval=latency.median_interval)]


def _size(subject: _Subject, condition: settings.Size) -> list[_Reading]:
    return [_Reading(limit=condition.max, limit_is="max", unit="bytes", value=subject.measurement.bytes)]


def _peak_memory(subject: _Subject, condition: settings.PeakMemory) -> list[_Reading]:
    value = subject.measurement.peak_memory_bytes
    missing = "its peak memory was not measured" if value is None else None
    return [_Reading(limit=condition.max, limit_is="max", unit="bytes", value=value, missing=missing)]


def _int8_share(subject: _Subject, condition: settings.Int8Share) -> list[_Reading]:
    shares = subject.measurement.int8_share
    limits = {"weights": condition.weights, "macs": condition.macs}
    return [
        _Reading(limit=limit, limit_is="min", unit="fraction", value=getattr(shares, name), metric=name)
        for name, limit in limits.items()
        if limit is not None
    ]


def _transposes(subject: _Subject, condition: settings.Transposes) -> list[_Reading]:
    return [_Reading(limit=condition.max, limit_is="max", unit="count", value=subject.measurement.transposes)]


_READERS: dict[type[settings.GateSettings], Callable[[_Subject, Any], list[_Reading]]] = {
    settings.Quality: _quality,
    settings.QualityDrop: _quality_drop,
    settings.ClassQualityDrop: _class_quality_drop,
    settings.SizeReduction: _reduction("bytes"),
    settings.LatencyReduction: _latency_reduction,
    settings.ParametersReduction: _reduction("parameters"),
    settings.MacsReduction: _reduction("macs"),
    settings.Latency: _latency,
    settings.Size: _size,
    settings.PeakMemory: _peak_memory,
    settings.Int8Share: _int8_share,
    settings.Transposes: _transposes,
}


def _judge(of: str, name: str, reading: _Reading, against: str | None, engine: str) -> GateResult:
    value, limit = reading.value, reading.limit
    missing = reading.missing
    if value is not None and not math.isfinite(value):
        value, missing = None, f"the measurement is {value}"
    if value is None:
        passed = False
    elif reading.limit_is == "min":
        passed = value >= limit - _ROUNDING
    else:
        passed = value <= limit + _ROUNDING
    unresolved = reading.interval is not None and reading.interval[0] < limit < reading.interval[1]
    return GateResult(
        of=of,
        gate=name,
        metric=reading.metric,
        limit=limit,
        limit_is=reading.limit_is,
        unit=reading.unit,
        measured=value,
        interval=reading.interval,
        against=against,
        engine=engine,
        passed=passed,
        unresolved=unresolved,
        reason=None if passed else missing or _reason(reading),
    )


def _reason(reading: _Reading) -> str:
    bound = "at least" if reading.limit_is == "min" else "at most"
    measured = "nothing" if reading.value is None else text.number(reading.value, reading.unit)
    words = f"{measured} measured, {bound} {text.number(reading.limit, reading.unit)} wanted"
    return f"{words}; {reading.detail}" if reading.detail else words


def _no_metric(measurement: Measurement, metric: str, per_class: bool = False) -> str:
    known = measurement.per_class if per_class else measurement.quality
    return f"the metric {metric!r} was not measured{' per class' if per_class else ''} (measured: {', '.join(known)})"


def _not_evaluated(of: str, name: str, condition: Any, reason: str) -> GateResult:
    limit, limit_is, unit = _limit(condition)
    return GateResult(
        of=of,
        gate=name,
        metric=getattr(condition, "metric", None),
        limit=limit,
        limit_is=limit_is,
        unit=unit,
        measured=None,
        against=getattr(condition, "against", None),
        engine=getattr(condition, "engine", None),
        passed=False,
        reason=reason,
    )


def _limit(condition: Any) -> tuple[float, Literal["min", "max"], Unit]:
    """The limit of a gate whose subject is missing: the first one, for a gate with several."""
    match condition:
        case settings.Latency():
            return condition.max * 1e3, "max", "ms"
        case settings.Size() | settings.PeakMemory():
            return condition.max, "max", "bytes"
        case settings.Transposes():
            return condition.max, "max", "count"
        case settings.Int8Share():
            return (condition.weights if condition.weights is not None else condition.macs or 0.0), "min", "fraction"
        case settings.QualityDrop() | settings.ClassQualityDrop():
            return condition.max, "max", "fraction"
        case _:
            return condition.min, "min", "fraction"
