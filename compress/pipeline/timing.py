"""How long a stage, and the run behind it, will still take."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

_EVERY = 0.5
_ENOUGH = 0.02
"""Share of a stage that must have passed before its own speed says more than the prediction."""


class StageClock:
    """Time left of one stage from its own progress, and how often to tell.

    `expected` and `later` are predicted seconds of this stage and of all that come after it.
    """

    def __init__(self, expected: float, later: float, clock: Callable[[], float] = monotonic) -> None:
        self._expected = expected
        self._later = later
        self._clock = clock
        self._started = clock()
        self._first: tuple[float, float] | None = None
        self._told = float("-inf")

    def update(self, fraction: float | None) -> dict[str, float] | None:
        """`seconds_left` and `run_seconds_left`, or None when it was told less than half a second ago.

        The speed is taken from the first fraction on, so that a resumed stage, which starts at more than 0, is right.
        """
        now = self._clock()
        if fraction is None:
            return {}
        if self._first is None:
            self._first = (now, fraction)
        if now - self._told < _EVERY and fraction < 1:
            return None
        self._told = now
        start, base = self._first
        if fraction - base >= _ENOUGH:
            left = (now - start) / (fraction - base) * (1 - fraction)
        else:
            left = max(self._expected * (1 - base) - (now - self._started), 0.0)
        return {"seconds_left": round(left, 1), "run_seconds_left": round(left + self._later, 1)}
