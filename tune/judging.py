"""From Optuna's trials to the decision whether one of them is trained, or goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tune.multi_objective import Course, reason_not_to_train, reason_to_cut
from tune.settings import Objective, StudySettings
from tune.space import Categorical, Parameter

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

COSTS, REASON, CUT = "costs", "reason", "cut"


class SingleObjective:
    """Asks Optuna's pruner."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def __call__(self, trial_id: int, step: int) -> str | None:
        trial = self._study._storage.get_trial(trial_id)
        return f"cut at step {step}" if self._study.pruner.prune(self._study, trial) else None


class SeveralObjectives:
    """Compares a trial with those that cost no more (`tune.multi_objective`)."""

    def __init__(self, study: Study, settings: StudySettings) -> None:
        self._study, self._settings = study, settings

    def __call__(self, trial_id: int, step: int) -> str | None:
        pruner = self._settings.pruner
        if pruner.use == "none":
            return None
        trials = self._study.get_trials(deepcopy=False)
        mine = next(trial for trial in trials if trial._trial_id == trial_id)
        return reason_to_cut(
            course(mine, self._settings), step, courses(trials, self._settings), pruner.startup, pruner.warmup
        )


def reason_before(
    settings: StudySettings, trial: FrozenTrial, trials: Sequence[FrozenTrial], costs: Mapping[str, float]
) -> str | None:
    """Why a trial is not trained, from what was measured first; None when it is."""
    for objective in settings.objectives:
        limit = settings.limits.get(objective.name)
        if limit is None:
            continue
        value = costs[objective.name]
        if (value > limit) if objective.direction == "minimize" else (value < limit):
            return f"{objective.name} is {value:.4g}, beyond the limit of {limit:.4g}"
    if settings.pruner.use == "none" or not costs or len(costs) != len(settings.objectives) - 1:
        return None
    mine = course(trial, settings)
    return reason_not_to_train(
        Course(mine.number, signed_costs(settings, costs), mine.curve, None, mine.point), courses(trials, settings)
    )


def courses(trials: Sequence[FrozenTrial], settings: StudySettings) -> list[Course]:
    """All trials whose costs are known."""
    return [course(trial, settings) for trial in trials if COSTS in trial.user_attrs]


def course(trial: FrozenTrial, settings: StudySettings) -> Course:
    """A trial as `tune.multi_objective` sees it."""
    from optuna.trial import TrialState

    first = settings.objectives[0]
    sign = 1.0 if first.direction == "maximize" else -1.0
    ended = trial.state is TrialState.COMPLETE and CUT not in trial.user_attrs and trial.values is not None
    return Course(
        trial.number,
        signed_costs(settings, trial.user_attrs.get(COSTS, {})),
        {step: sign * value for step, value in trial.intermediate_values.items()},
        sign * trial.values[0] if ended and trial.values is not None else None,
        tuple(
            place
            for name, parameter in settings.space.parameters.items()
            for place in _places(parameter, trial.params.get(name))
        ),
    )


def signed_costs(settings: StudySettings, costs: Mapping[str, float]) -> tuple[float, ...]:
    """The objectives behind the first, each so that lower is better; +inf for one that is not known."""
    return tuple(_signed(objective, costs.get(objective.name)) for objective in settings.objectives[1:])


def _signed(objective: Objective, value: float | None) -> float:
    if value is None:
        return math.inf
    return value if objective.direction == "minimize" else -value


def _places(parameter: Parameter, value: Any) -> tuple[float, ...]:
    """Where a value lies in its range, 0 to 1; a place of its own for each choice."""
    if isinstance(parameter, Categorical):
        # Two different choices are as far apart as the ends of a range.
        return tuple(math.sqrt(0.5) * (choice == value) for choice in parameter.choices)
    if value is None or parameter.high == parameter.low:
        return (0.0,)
    if parameter.log:
        return (math.log(value / parameter.low) / math.log(parameter.high / parameter.low),)
    return ((value - parameter.low) / (parameter.high - parameter.low),)
