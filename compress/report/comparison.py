"""One measured file against another, from the raw samples of their proof."""

from __future__ import annotations

from dataclasses import dataclass

from compress.report.model import Change, Comparison, Interval, QualityChange
from compress.report.proof import MeasuredProof, Samples


@dataclass(frozen=True)
class ClassDrop:
    """How far one class fell: `drop` is the absolute fall of its accuracy (negative: it rose), paired over samples."""

    label: str
    drop: float
    interval: Interval


def compare(proof: MeasuredProof, key: str, against: str) -> Comparison:
    """The file `key` relative to the file `against`, both keys of the proof's variants.

    Latency is None where one of the two was not timed. Raises KeyError for a key that was not measured.
    """
    from edge_runtime.metrics import paired_bootstrap_interval

    one, other = proof[key], proof[against]
    seed = proof.measurements.seed
    correct, base = proof.samples.correct(key), proof.samples.correct(against)
    quality_interval = paired_bootstrap_interval(correct, base, seed)
    latency, latency_interval = _latency(proof.samples, key, against, seed)
    return Comparison(
        of=against,
        bytes=_relative(one.bytes, other.bytes),
        weight_bytes=_relative(one.weight_bytes, other.weight_bytes) if other.weight_bytes else None,
        parameters=_relative(one.parameters, other.parameters),
        macs=_relative(one.macs, other.macs),
        latency=latency,
        latency_interval=latency_interval,
        latency_change=_change(latency_interval, lower_is_better=True) if latency_interval is not None else None,
        quality=float(correct.mean() - base.mean()),
        quality_interval=quality_interval,
        quality_change=_change(quality_interval, lower_is_better=False),
    )


def compare_with_torch(proof: MeasuredProof, key: str) -> QualityChange | None:
    """The file's quality against that of its own torch model; None where the torch model was not measured."""
    from edge_runtime.metrics import paired_bootstrap_interval

    answers = proof.samples.torch.get(proof[key].torch)
    if answers is None:
        return None
    correct, base = proof.samples.correct(key), answers == proof.samples.targets
    interval = paired_bootstrap_interval(correct, base, proof.measurements.seed)
    return QualityChange(
        quality=float(correct.mean() - base.mean()),
        quality_interval=interval,
        quality_change=_change(interval, lower_is_better=False),
    )


def class_drops(proof: MeasuredProof, key: str, against: str) -> tuple[ClassDrop, ...]:
    """The fall of every class that has test samples, in the order of the labels."""
    from edge_runtime.metrics import paired_bootstrap_interval

    drops = []
    correct, base = proof.samples.correct(key), proof.samples.correct(against)
    for index, label in enumerate(proof.measurements.labels):
        of_class = proof.samples.targets == index
        if not of_class.any():
            continue
        low, high = paired_bootstrap_interval(correct[of_class], base[of_class], proof.measurements.seed)
        drop = float(base[of_class].mean() - correct[of_class].mean())
        drops.append(ClassDrop(label, drop, (-high, -low)))
    return tuple(drops)


def _latency(samples: Samples, key: str, against: str, seed: int) -> tuple[float | None, Interval | None]:
    from edge_runtime.benchmark import ratio

    if key not in samples.latency_ms or against not in samples.latency_ms:
        return None, None
    if key == against:
        return 0.0, (0.0, 0.0)
    value, (low, high) = ratio(samples.latency_ms[key], samples.latency_ms[against], seed)
    return value - 1, (low - 1, high - 1)


def _relative(value: float, base: float) -> float:
    if base == 0:
        raise ValueError("a relative change needs a baseline above zero")
    return value / base - 1


def _change(interval: Interval, *, lower_is_better: bool) -> Change:
    low, high = interval
    if low <= 0 <= high:
        return "no difference"
    return "better" if (high < 0) == lower_is_better else "worse"
