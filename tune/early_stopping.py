"""Early stopping inside a trial, for objectives that have a training loop of their own.

Recipes need none of this: their training loop has `early_stopping` and restores the best weights itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class EarlyStopping(Generic[T]):
    """Keeps what was best, and says when `patience` scores in a row have not been better by more than `min_delta`.

    Scores are of the validation split, higher is better. `keep` is called for every new best score and gives what is
    to be restored (a copy of the weights); it is in `best` afterwards. A score that is not a number is never better.
    """

    patience: int
    min_delta: float = 0.0
    keep: Callable[[], T] | None = None
    best: T | None = None
    best_score: float = -math.inf
    best_step: int = -1
    steps: int = 0
    _reference: float = field(default=-math.inf, repr=False)
    _stale: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ValueError(f"expected a patience of at least 1, got {self.patience}")
        if not self.min_delta >= 0:
            raise ValueError(f"expected a min_delta of at least 0, got {self.min_delta}")

    def __call__(self, score: float) -> bool:
        """Takes the score of the next step; whether to stop."""
        if score > self.best_score:
            self.best_score, self.best_step = score, self.steps
            self.best = self.keep() if self.keep is not None else None
        self.steps += 1
        if score > self._reference + self.min_delta:
            self._reference, self._stale = score, 0
            return False
        self._stale += 1
        return self._stale >= self.patience
