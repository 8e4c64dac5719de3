"""What a training run tells while it runs: loss, share done, time left."""

from __future__ import annotations

from time import monotonic
from typing import Any, Protocol

from compress.training.state import State

_SECONDS_BETWEEN = 2.0


class Progress(Protocol):
    def __call__(self, message: str, *, fraction: float | None = None, **fields: Any) -> None: ...


class Reporter:
    """Tells at most every two seconds, and after every epoch. The time left is judged from this attempt alone."""

    def __init__(self, progress: Progress, epochs: int, steps: int, state: State) -> None:
        self._progress = progress
        self._epochs, self._steps = epochs, steps
        self._first = self._done(state)
        self._started = self._last = monotonic()

    def step(self, state: State, loss: float) -> None:
        now = monotonic()
        if now - self._last < _SECONDS_BETWEEN:
            return
        self._last = now
        where = f"epoch {state.epoch + 1}/{self._epochs}, batch {state.batch}/{self._steps}"
        left = self._left(state, now)
        self._progress(
            f"{where}: loss {loss:.4f}, {format_seconds(left)} left",
            fraction=self._done(state), epoch=state.epoch, batch=state.batch, loss=loss, seconds_left=left,
        )  # fmt: skip

    def epoch(self, state: State) -> None:
        record = state.history[-1]
        self._last = monotonic()
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in record.validation.items())
        left = 0.0 if state.stopped else self._left(state, self._last)
        ending = "stopped early" if state.stopped else f"{format_seconds(left)} left"
        self._progress(
            f"epoch {record.epoch + 1}/{self._epochs}: loss {record.loss:.4f}, validation {metrics}, {ending}",
            fraction=self._done(state), epoch=record.epoch, loss=record.loss, seconds_left=left, **record.validation,
        )  # fmt: skip

    def _done(self, state: State) -> float:
        if state.stopped:
            return 1.0
        return (state.epoch + min(state.batch / max(self._steps, 1), 1.0)) / self._epochs

    def _left(self, state: State, now: float) -> float:
        done = self._done(state)
        return (now - self._started) / max(done - self._first, 1e-9) * (1 - done)


def format_seconds(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
