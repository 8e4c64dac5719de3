"""From raw measurements of files to the records of a proof, with every comparison that a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compress.measurement.quality import Predictions, Quality, judge
from compress.models.variant import FileVariant
from compress.report.comparison import compare, compare_with_torch
from compress.report.model import (
    Int8Shares,
    Interval,
    Latency,
    Machine,
    Measurement,
    Measurements,
    ParityRecord,
    Waterfall,
)
from compress.report.proof import MeasuredProof, Samples, float_file
from edge_runtime.benchmark import LatencyResult, ratio
from edge_runtime.engines.protocol import Engine


@dataclass(frozen=True)
class Subject:
    """One file on one engine, under the key that it has in the report."""

    key: str
    variant: FileVariant
    engine: Engine
    default: bool


@dataclass(frozen=True)
class Raw:
    """What was measured, by key of the subject. `latency` and `memory` lack what was not measured."""

    predictions: Predictions
    latency: Mapping[str, LatencyResult]
    memory: Mapping[str, int]


@dataclass(frozen=True)
class About:
    """What holds for the whole proof. `baseline` is a key."""

    proof: str
    metric: str
    baseline: str
    labels: tuple[str, ...]
    skipped: tuple[str, ...]
    threads: int
    seed: int
    machine: Machine


def assemble(subjects: Sequence[Subject], raw: Raw, about: About) -> MeasuredProof:
    """The whole proof: measurements first, then the comparisons that follow from its samples."""
    predictions = raw.predictions
    torch = {
        name: judge(answers, predictions.targets, about.labels, about.seed).value
        for name, answers in predictions.torch.items()
    }
    quality = {
        subject.key: judge(predictions.files[subject.key], predictions.targets, about.labels, about.seed)
        for subject in subjects
    }
    samples = Samples(
        predictions.targets,
        predictions.files,
        predictions.torch,
        {key: result.samples_ms for key, result in raw.latency.items()},
    )
    measured = {subject.key: _measurement(subject, quality[subject.key], torch, raw, about) for subject in subjects}
    proof = MeasuredProof(_measurements(measured, torch, about, len(predictions.targets)), samples)
    compared = {key: _with_comparisons(proof, key) for key in measured}
    return MeasuredProof(_measurements(compared, torch, about, len(predictions.targets)), samples)


def _measurements(
    variants: Mapping[str, Measurement], torch: Mapping[str, float], about: About, samples: int
) -> Measurements:
    return Measurements(
        proof=about.proof,
        metric=about.metric,
        baseline=about.baseline,
        samples=samples,
        labels=about.labels,
        skipped=about.skipped,
        threads=about.threads,
        seed=about.seed,
        machine=about.machine,
        torch={name: {about.metric: value} for name, value in torch.items()},
        variants=dict(variants),
    )


def _measurement(subject: Subject, quality: Quality, torch: Mapping[str, float], raw: Raw, about: About) -> Measurement:
    variant, engine = subject.variant, subject.engine
    inspection = variant.inspection
    timed = raw.latency.get(subject.key)
    answers = raw.predictions.files[subject.key]
    notes: dict[str, Any] = dict(variant.notes)
    if non_finite := int((answers < 0).sum()):
        notes["samples_without_finite_scores"] = non_finite
    return Measurement(
        name=variant.name,
        format=variant.format,
        precision=variant.precision,
        scheme=variant.scheme,
        engine=engine.name,
        engine_version=engine.version,
        default_engine=subject.default,
        threads=engine.threads,
        delegate=engine.delegate,
        path=variant.path.name,
        sha256=variant.digest,
        bytes=variant.path.stat().st_size,
        weight_bytes=inspection.weight_bytes,
        parameters=variant.parameters,
        macs=variant.macs,
        torch=variant.parent.name,
        lineage=variant.lineage,
        metric=about.metric,
        quality={about.metric: quality.value},
        quality_interval={about.metric: quality.interval},
        per_class={about.metric: quality.per_class},
        samples=len(answers),
        waterfall=Waterfall(torch=torch.get(variant.parent.name), float_file=None, file=quality.value),
        latency_ms=None if timed is None else _latency(timed, about.seed),
        peak_memory_bytes=raw.memory.get(subject.key),
        int8_share=Int8Shares(weights=inspection.int8_weight_share, macs=inspection.int8_mac_share),
        operators=inspection.operators,
        transposes=inspection.transposes,
        float_islands=inspection.float_islands,
        parity=ParityRecord(**vars(variant.parity)),
        notes=notes,
        baseline=about.baseline,
        relative_to_torch=None,
        relative=None,
        relative_to_float=None,
        relative_to_fastest_float=None,
    )


def _latency(result: LatencyResult, seed: int) -> Latency:
    return Latency(
        median=result.median,
        median_interval=_median_interval(result, seed),
        p90=result.p90,
        p95=result.p95,
        p99=result.p99,
        runs=result.runs,
        converged=result.converged,
    )


def _median_interval(result: LatencyResult, seed: int) -> Interval:
    """95 % bootstrap interval of the median over rounds: its ratio to a constant of one."""
    return ratio(result.samples_ms, np.ones_like(result.samples_ms), seed)[1]


def _with_comparisons(proof: MeasuredProof, key: str) -> Measurement:
    measurement = proof[key]
    baseline = proof.measurements.baseline
    own = float_file(proof, measurement.torch, measurement.format, measurement.engine)
    fastest = _fastest_float(proof, measurement.torch)
    return measurement.model_copy(
        update={
            "waterfall": measurement.waterfall.model_copy(
                update={"float_file": None if own is None else proof[own].quality[measurement.metric]}
            ),
            "relative_to_torch": compare_with_torch(proof, key),
            "relative": None if key == baseline else compare(proof, key, baseline),
            "relative_to_float": None if own in (None, key) else compare(proof, key, own),
            "relative_to_fastest_float": None if fastest in (None, key) else compare(proof, key, fastest),
        }
    )


def _fastest_float(proof: MeasuredProof, torch: str) -> str | None:
    """Key of the fp32 file of a torch variant with the lowest median latency, on whatever engine it was timed."""
    medians = {
        key: measurement.latency_ms.median
        for key, measurement in proof.measurements.variants.items()
        if measurement.torch == torch and measurement.precision == "fp32" and measurement.latency_ms is not None
    }
    return min(medians, key=lambda key: medians[key], default=None)
