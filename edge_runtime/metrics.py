"""Metrics of classifiers and their uncertainty, in numpy. Everything random takes a seed and repeats exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]
Statistic = Literal["mean", "median"]

_RESAMPLES = 2000
_CHUNK = 4_000_000
"""Drawn numbers held at once: bounds memory, whatever the number of samples."""


def accuracy(predicted: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]]) -> float:
    """Share of `predicted` (N,) equal to `labels` (N,). Raises ValueError when they are empty or differ in length."""
    return float(np.mean(_equal(predicted, labels)))


def top_k_accuracy(logits: NDArray[np.floating[Any]], labels: NDArray[np.integer[Any]], k: int) -> float:
    """Share of samples whose label is among the `k` largest of `logits` (N, C); of equals the lower index wins."""
    if not 1 <= k <= logits.shape[1]:
        raise ValueError(f"k must be between 1 and the {logits.shape[1]} classes, got {k}")
    best = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    return float(np.mean((best == np.asarray(labels)[:, None]).any(axis=1)))


def confusion_matrix(
    predicted: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]], classes: int
) -> NDArray[np.int64]:
    """(classes, classes) counts: row is the label, column the prediction. Predictions of no class are left out."""
    _equal(predicted, labels)
    inside = (predicted >= 0) & (predicted < classes)
    flat = np.asarray(labels)[inside] * classes + np.asarray(predicted)[inside]
    return np.bincount(flat, minlength=classes * classes).reshape(classes, classes)


def per_class_accuracy(
    predicted: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]], classes: int
) -> NDArray[np.float64]:
    """(classes,) share of each class's samples that were predicted right (recall); NaN for a class without samples."""
    right = np.bincount(np.asarray(labels)[_equal(predicted, labels)], minlength=classes)
    total = np.bincount(labels, minlength=classes)
    return np.divide(right, total, out=np.full(classes, np.nan), where=total > 0)


def bootstrap_interval(
    values: NDArray[Any],
    seed: int,
    *,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    resamples: int = _RESAMPLES,
) -> Interval:
    """Percentile bootstrap interval (Efron 1979) of the mean or median of `values` (N,): low and high.

    Raises ValueError when `values` is empty or holds NaN.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
        raise ValueError(f"expected at least one value and no NaN, got shape {values.shape}")
    rng = np.random.default_rng(seed)
    if statistic == "mean":
        estimates = _resampled_means(values, rng, resamples)
    else:
        estimates = np.concatenate([np.median(values[draw], axis=1) for draw in _draws(values.size, rng, resamples)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(estimates, [tail, 1 - tail])
    return float(low), float(high)


def paired_bootstrap_interval(
    values: NDArray[Any],
    baseline: NDArray[Any],
    seed: int,
    *,
    confidence: float = 0.95,
    resamples: int = _RESAMPLES,
) -> Interval:
    """Interval of `mean(values) - mean(baseline)`, both (N,) over the same samples in the same order.

    Pairing takes out what the two share: a sample that both get wrong adds no noise to the difference.
    """
    if np.shape(values) != np.shape(baseline):
        raise ValueError(f"paired values differ in shape: {np.shape(values)} and {np.shape(baseline)}")
    difference = np.asarray(values, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    return bootstrap_interval(difference, seed, confidence=confidence, resamples=resamples)


def _resampled_means(values: NDArray[np.float64], rng: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    """Means of samples drawn with replacement.

    Correctness and its differences take two or three values: the counts of each in a resample are multinomial, which
    is the same distribution as drawing indices, and costs the same for ten samples and for ten million.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size <= 64:
        drawn = rng.multinomial(values.size, counts / values.size, size=resamples)
        means: NDArray[np.float64] = drawn @ distinct / values.size
        return means
    return np.concatenate([values[draw].mean(axis=1) for draw in _draws(values.size, rng, resamples)])


def _draws(size: int, rng: np.random.Generator, resamples: int) -> Iterator[NDArray[np.int64]]:
    rows = max(1, _CHUNK // size)
    for start in range(0, resamples, rows):
        yield rng.integers(0, size, size=(min(rows, resamples - start), size))


def _equal(predicted: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    if np.shape(predicted) != np.shape(labels) or np.size(labels) == 0:
        raise ValueError(
            f"expected as many predictions as labels, at least one, got {np.shape(predicted)} and {np.shape(labels)}"
        )
    return np.asarray(predicted) == np.asarray(labels)
