"""Quality of a classifier, measured from the file on the engine that runs it, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ContractError
from edge_runtime.metrics import Interval, bootstrap_interval, per_class_accuracy
from edge_runtime.session import Session


@dataclass(frozen=True)
class EvaluationResult:
    """What a model answered, (N,) samples of C classes, in the order in which they were given.

    `predicted` is the argmax of `logits` (the first of equals), -1 where a logit was NaN or infinite; such a sample
    counts as wrong, and `non_finite` counts them. `accuracy` is the mean of `correct`.
    """

    logits: NDArray[np.float32]
    predicted: NDArray[np.int64]
    labels: NDArray[np.int64]
    correct: NDArray[np.bool_]
    accuracy: float
    non_finite: int

    def per_class(self) -> NDArray[np.float64]:
        """(C,) accuracy within each class; NaN for a class without samples."""
        return per_class_accuracy(self.predicted, self.labels, self.logits.shape[1])

    def interval(self, seed: int = 0) -> Interval:
        """95 % bootstrap interval of the accuracy."""
        return bootstrap_interval(self.correct, seed)


def evaluate(
    session: Session, samples: Iterable[tuple[NDArray[Any] | Sequence[NDArray[Any]], int | NDArray[Any]]]
) -> EvaluationResult:
    """Runs every sample through the session. Streams: one input is held at a time.

    Args:
        samples: pairs of what `session.predict` takes (an array, for a model with one input, or a list) and the
            label's index; for a batch above 1, an array of labels.

    Raises:
        ContractError: no samples, an input that the contract refuses, a label that is no class, or a first output
            that is not (batch, classes).
    """
    answers: list[NDArray[np.float32]] = []
    labels: list[Any] = []
    for inputs, label in samples:
        answers.append(session.predict([inputs] if isinstance(inputs, np.ndarray) else inputs)[0])
        labels.append(label)
    if not answers:
        raise ContractError("no samples to evaluate")
    logits = np.concatenate(answers)
    return judge(logits, np.concatenate([np.atleast_1d(label) for label in labels]))


def judge(logits: NDArray[np.float32], labels: NDArray[Any]) -> EvaluationResult:
    """The result for logits (N, C) and label indices (N,), wherever the logits come from. Raises as `evaluate`."""
    if logits.ndim != 2:
        raise ContractError(f"a classifier's output is (batch, classes), got {logits.shape[1:]} a sample")
    count, classes = logits.shape
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise ContractError(f"expected {count} whole-number labels, got {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= classes:
        raise ContractError(f"labels are 0 to {classes - 1}, got {labels.min()} to {labels.max()}")
    finite = np.isfinite(logits).all(axis=1)
    predicted = np.where(finite, logits.argmax(axis=1), -1).astype(np.int64)
    correct = predicted == labels
    return EvaluationResult(
        logits=logits,
        predicted=predicted,
        labels=labels.astype(np.int64),
        correct=correct,
        accuracy=float(correct.mean()),
        non_finite=int(count - finite.sum()),
    )
