"""The learning rate as a pure function of the step, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math

from compress.training.settings import DEFAULT_WARMUP, TrainingSettings

_ONE_CYCLE_START = 1 / 25
_ONE_CYCLE_END = 1 / 25e4


def learning_rate(settings: TrainingSettings, step: int, total: int) -> float:
    """The rate of optimizer step `step`, counted from 0, of `total`.

    cosine: linear warm-up, then half a cosine to zero (Loshchilov and Hutter 2017, without restarts). one-cycle: from
    1/25 of the peak up along a cosine and down to 1/250000 of it (Smith and Topin 2018, the momentum constant).
    """
    peak = settings.learning_rate
    share = DEFAULT_WARMUP[settings.schedule] if settings.warmup is None else settings.warmup
    if settings.schedule == "one-cycle":
        top = max(share * total - 1, 0.0)
        if step < top:
            return peak * _cosine(_ONE_CYCLE_START, 1.0, step / top)
        return peak * _cosine(1.0, _ONE_CYCLE_END, (step - top) / max(total - 1 - top, 1.0))
    warmup = round(share * total)
    if step < warmup:
        return peak * (step + 1) / warmup
    if settings.schedule == "constant":
        return peak
    return peak * _cosine(1.0, 0.0, (step - warmup) / max(total - warmup, 1))


def _cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2
