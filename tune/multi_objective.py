"""Several objectives: dominance, the Pareto front, its hypervolume, and when a trial is not worth training (further).

Optuna prunes no study with two objectives, since a curve of one of them says nothing of the other. Here the others are
known before training (latency and size of an architecture can be measured untrained), so that the question becomes one
of a single curve: a trial can only come to the front by beating every trial that costs no more than it does. It is

- not trained, when the best that its neighbours in the space let hope for is already reached at no more cost;
- cut, when its curve lags behind the best curve of those that cost no more, by more than trials of this study were
  ever seen to catch up from that step on.

Nothing here imports Optuna. All numbers are signed so that `quality` is better when higher and costs when lower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NEIGHBOURS = 5
_LEAST_FOR_HOPE = 10
_TRAINED_ANYWAY = 5
"""One trial of this many is trained although its neighbours let hope for nothing: they may be wrong."""
_QUANTILE = 0.9
_MOST_COMPARED = 60


@dataclass(frozen=True)
class Course:
    """One trial. `point` are its parameters, each scaled to [0, 1]; `curve` its quality by step.

    `quality` is what it ended with; None for a trial that has not ended, was cut or failed.
    """

    number: int
    costs: tuple[float, ...]
    curve: Mapping[int, float] = field(default_factory=dict)
    quality: float | None = None
    point: tuple[float, ...] = ()

    def best_until(self, step: int) -> float:
        """The best quality of all steps up to this one; -inf when there is none."""
        return max((v for s, v in self.curve.items() if s <= step and not math.isnan(v)), default=-math.inf)


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether `first` is at least as good everywhere and better somewhere. Lower is better in every place."""
    return all(a <= b for a, b in zip(first, second, strict=True)) and tuple(first) != tuple(second)


def front(points: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the points that no other point dominates, of equal points the first. Lower is better everywhere.

    Sorted first, so that for two objectives it takes n log n steps: a study of thousands of trials is drawn at once.
    """
    order = sorted(range(len(points)), key=lambda index: tuple(points[index]))
    kept: list[int] = []
    if points and len(points[0]) == 2:
        lowest = math.inf
        for index in order:
            if points[index][1] < lowest:
                lowest = points[index][1]
                kept.append(index)
        return sorted(kept)
    for index in order:
        # What sorts later never dominates what sorts earlier.
        mine = points[index]
        if not any(all(a <= b for a, b in zip(points[other], mine, strict=True)) for other in kept):
            kept.append(index)
    return sorted(kept)


def hypervolume(points: Sequence[tuple[float, float]], reference: tuple[float, float]) -> float:
    """The area between the front of `points` and the reference point; lower is better in both places."""
    inside = [point for point in points if point[0] < reference[0] and point[1] < reference[1]]
    best = sorted(inside[index] for index in front(inside))
    area, above = 0.0, reference[1]
    for first, second in best:
        area += (reference[0] - first) * (above - second)
        above = second
    return area


def rivals(trial: Course, others: Sequence[Course]) -> list[Course]:
    """The finished trials that cost no more in any way."""
    return [
        other
        for other in others
        if other.quality is not None
        and other.number != trial.number
        and all(mine >= its for mine, its in zip(trial.costs, other.costs, strict=True))
    ]


def reason_not_to_train(trial: Course, others: Sequence[Course]) -> str | None:
    """Why a trial is not trained at all; None when it should be.

    What may be hoped for is the mean quality of the nearest points that were tried, plus twice their spread. A point
    that was tried before has its own best as hope: to try it once more shows nothing.
    """
    ended = [other for other in others if other.quality is not None and other.number != trial.number]
    if len(ended) < _LEAST_FOR_HOPE or trial.number % _TRAINED_ANYWAY == 0:
        return None
    best = max(rivals(trial, others), key=_quality, default=None)
    hope = _hope(trial, ended)
    if best is None or best.quality is None or hope > best.quality:
        return None
    return f"trial {best.number} costs no more and reached {best.quality:.4g}; {hope:.4g} is the most to be hoped for"


def _hope(trial: Course, ended: Sequence[Course]) -> float:
    tried: dict[tuple[float, ...], float] = {}
    for other in ended:
        tried[other.point] = max(_quality(other), tried.get(other.point, -math.inf))
    if trial.point in tried:
        return tried[trial.point]
    # Each point once: several trials of one would pass for points that agree.
    near = sorted(tried, key=lambda point: math.dist(point, trial.point))[:_NEIGHBOURS]
    if len(near) < _NEIGHBOURS:
        return math.inf
    qualities = [tried[point] for point in near]
    mean = math.fsum(qualities) / len(qualities)
    return mean + 2 * math.sqrt(math.fsum((quality - mean) ** 2 for quality in qualities) / (len(qualities) - 1))


def _quality(course: Course) -> float:
    return course.quality if course.quality is not None else -math.inf


def reason_to_cut(trial: Course, step: int, others: Sequence[Course], startup: int, warmup: int) -> str | None:
    """Why a trial is ended after this step; None when it goes on.

    `startup` trials have to be finished first; steps up to `warmup` are never judged.
    """
    ended = [other for other in others if other.quality is not None and other.curve][-_MOST_COMPARED:]
    if len(ended) < max(startup, 1) or step <= warmup:
        return None
    ahead = rivals(trial, ended)
    if not ahead:
        return None
    best = max(ahead, key=lambda other: other.best_until(step))
    lag = best.best_until(step) - trial.best_until(step)
    allowed = recoverable_lag(ended, step)
    if lag <= allowed:
        return None
    return f"at step {step} it lags {lag:.4g} behind trial {best.number}, which costs no more; {allowed:.4g} is usual"


def recoverable_lag(ended: Sequence[Course], step: int) -> float:
    """How far behind at this step trials were that came out ahead in the end: the 90 % quantile over all pairs."""
    lags = sorted(
        max(0.0, loser.best_until(step) - winner.best_until(step))
        for winner in ended
        for loser in ended
        if winner.quality is not None and loser.quality is not None and winner.quality > loser.quality
    )
    finite = [lag for lag in lags if math.isfinite(lag)]
    return finite[min(len(finite) - 1, int(_QUANTILE * len(finite)))] if finite else 0.0
