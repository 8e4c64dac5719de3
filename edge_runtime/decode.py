"""From a model's numbers to an answer. Float, outside the graph, so that INT8 does not touch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ContractError


@dataclass(frozen=True)
class Score:
    """One label with its probability, 0 to 1."""

    label: str
    probability: float


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities over the last axis, in float64, safe for large logits."""
    shifted = np.asarray(logits, dtype=np.float64)
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    exponents = np.exp(shifted)
    return cast(NDArray[np.float64], exponents / exponents.sum(axis=-1, keepdims=True))


def classify(logits: NDArray[Any], labels: Sequence[str], top: int = 5) -> tuple[Score, ...]:
    """The `top` most probable labels of one sample's logits (C,) or (1, C), best first.

    Raises ContractError when the number of logits is not the number of labels, or when a logit is NaN or infinite.
    """
    flat = np.asarray(logits).reshape(-1)
    if flat.size != len(labels):
        raise ContractError(f"the model gave {flat.size} logits, the contract has {len(labels)} labels")
    if not np.isfinite(flat).all():
        raise ContractError("the model gave NaN or infinite logits")
    probabilities = softmax(flat)
    best = np.argsort(-probabilities, kind="stable")[: max(1, top)]
    return tuple(Score(labels[index], float(probabilities[index])) for index in best)
