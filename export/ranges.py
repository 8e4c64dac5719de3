"""Which range of an activation the 256 numbers of INT8 are spread over: everything seen, or less and finer.

Ranges are estimated in one further pass over the calibration samples, from histograms between the smallest and the
largest value, so that memory depends on the number of tensors alone. Imports numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from export.request import RangeEstimator

Values = NDArray[np.float32]
Range = tuple[float, float]

BINS = 2048
LEVELS = 256
_SMOOTHING = 0.95
"""What a moving average keeps of the past with each sample, as in LiteRT's quantizer."""
_SHRINKS = np.linspace(1.0, 0.1, 37)


@dataclass(frozen=True)
class Estimator:
    """`percentile` is the share of all values that has to lie inside, for the method of that name."""

    method: RangeEstimator = "min-max"
    percentile: float = 0.9999


def estimate(
    estimator: Estimator, samples: Iterable[Mapping[str, Values]], extremes: Mapping[str, Range]
) -> dict[str, Range]:
    """The range of every tensor that `extremes` (smallest and largest value) names.

    `samples` gives the values of all tensors, sample by sample. Tensors with infinite extremes keep them.
    """
    if estimator.method == "min-max":
        return dict(extremes)
    if estimator.method == "moving-average":
        return dict(extremes) | _moving_average(samples, extremes)
    counts = _histograms(samples, extremes)
    return dict(extremes) | {
        name: _from_histogram(estimator, histogram, *extremes[name]) for name, histogram in counts.items()
    }


def percentile_range(counts: NDArray[np.int64], low: float, high: float, share: float) -> Range:
    """Leaves out the same number of values on both sides, so that at least `share` stays."""
    cumulated = np.cumsum(counts) / max(int(counts.sum()), 1)
    edges = np.linspace(low, high, len(counts) + 1)
    outside = (1 - share) / 2
    first = int(np.searchsorted(cumulated, outside, side="right"))
    last = int(np.searchsorted(cumulated, 1 - outside, side="left"))
    return _with_zero(float(edges[first]), float(edges[min(last + 1, len(counts))]))


def mse_range(counts: NDArray[np.int64], low: float, high: float) -> Range:
    """The range with the smallest squared error of rounding and clipping."""
    centres = _centres(len(counts), low, high)
    return _search(lambda ends: float((counts * np.square(centres - _rounded(centres, *ends))).sum()), low, high)


def entropy_range(counts: NDArray[np.int64], low: float, high: float) -> Range:
    """The range whose rounded distribution is least apart from the true one (Kullback-Leibler divergence).

    After Migacz 2017 ("8-bit Inference with TensorRT"): values outside count to the ends of the true distribution and
    are missing from the rounded one.
    """
    centres = _centres(len(counts), low, high)
    return _search(lambda ends: _divergence(counts, centres, *ends), low, high)


def _search(cost: Callable[[Range], float], low: float, high: float) -> Range:
    """The cheapest range inside; the ends are moved in turn, because the best of one depends on the other a little."""
    best = _with_zero(low, high)
    for _ in range(2):
        best = min(((best[0], high * shrink) for shrink in _SHRINKS if high > 0), key=cost, default=best)
        best = min(((low * shrink, best[1]) for shrink in _SHRINKS if low < 0), key=cost, default=best)
    return best


def _from_histogram(estimator: Estimator, counts: NDArray[np.int64], low: float, high: float) -> Range:
    if estimator.method == "percentile":
        return percentile_range(counts, low, high, estimator.percentile)
    search: Callable[[NDArray[np.int64], float, float], Range]
    search = mse_range if estimator.method == "mse" else entropy_range
    return search(counts, low, high)


def _moving_average(samples: Iterable[Mapping[str, Values]], extremes: Mapping[str, Range]) -> dict[str, Range]:
    averages: dict[str, Range] = {}
    for values in samples:
        for name in extremes.keys() & values.keys():
            low, high = float(values[name].min()), float(values[name].max())
            if not np.isfinite((low, high)).all():
                continue
            before = averages.get(name, (low, high))
            averages[name] = (
                _SMOOTHING * before[0] + (1 - _SMOOTHING) * low,
                _SMOOTHING * before[1] + (1 - _SMOOTHING) * high,
            )
    return averages


def _histograms(samples: Iterable[Mapping[str, Values]], extremes: Mapping[str, Range]) -> dict[str, NDArray[np.int64]]:
    bounded = {name for name, ends in extremes.items() if np.isfinite(ends).all() and ends[0] < ends[1]}
    counts: dict[str, NDArray[np.int64]] = {}
    for values in samples:
        for name in bounded & values.keys():
            low, high = extremes[name]
            places = (values[name].reshape(-1).astype(np.float64) - low) * (BINS / (high - low))
            found = np.bincount(np.clip(places, 0, BINS - 1).astype(np.int64), minlength=BINS)
            counts[name] = counts[name] + found if name in counts else found
    return counts


def _divergence(counts: NDArray[np.int64], centres: NDArray[np.float64], low: float, high: float) -> float:
    inside = (centres >= low) & (centres <= high)
    if not inside.any():
        return float("inf")
    places = np.flatnonzero(inside)
    true = counts[inside].astype(np.float64)
    kept = true.copy()
    true[0] += counts[: places[0]].sum()
    true[-1] += counts[places[-1] + 1 :].sum()
    level = np.round((centres[inside] - low) / ((high - low) / (LEVELS - 1))).astype(np.int64)
    occupied = (kept > 0).astype(np.float64)
    mass, members = np.bincount(level, kept, LEVELS), np.bincount(level, occupied, LEVELS)
    rounded = np.where(occupied > 0, (mass / np.maximum(members, 1))[level], 0.0)
    true, rounded = true / true.sum(), (rounded + 1e-9) / (rounded + 1e-9).sum()
    some = true > 0
    return float((true[some] * np.log(true[some] / rounded[some])).sum())


def _rounded(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    scale = max((high - low) / (LEVELS - 1), 1e-12)
    zero_point = round(-low / scale)
    rounded: NDArray[np.float64] = (np.clip(np.round(values / scale) + zero_point, 0, LEVELS - 1) - zero_point) * scale
    return rounded


def _centres(bins: int, low: float, high: float) -> NDArray[np.float64]:
    centres: NDArray[np.float64] = low + (np.arange(bins, dtype=np.float64) + 0.5) * ((high - low) / bins)
    return centres


def _with_zero(low: float, high: float) -> Range:
    """Zero has to have a number of its own: padding is made of it."""
    return min(low, 0.0), max(high, 0.0)
