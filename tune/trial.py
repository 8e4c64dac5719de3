"""What an objective gets: parameters, a place for its checkpoints, and a way to tell how it is doing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tune.errors import TrialCut, TrialLost
from tune.study import plain


class Judge(Protocol):
    """Decides whether a trial goes on after a report; the reason to end it, or None."""

    def __call__(self, trial_id: int, step: int) -> str | None: ...


@dataclass(frozen=True)
class Trial:
    """One trial of a study, inside of its worker.

    `folder` is the same for every worker that this trial has had: what one leaves there (a checkpoint), the next
    finds. It lies below the working folder of the worker, so several hosts need one that they share. `costs` are the
    objectives that were measured before training.
    """

    number: int
    params: Mapping[str, Any]
    folder: Path
    costs: Mapping[str, float]
    _storage: Any
    _id: int
    _judge: Judge
    _attach: Callable[[int, Path], str]

    def report(self, step: int, value: float) -> None:
        """Tells the first objective's value after a step (an epoch), counted from 1. A value may be NaN.

        After a single NaN the trial is not judged: the next step may be well again.

        Raises TrialCut when the pruner ends the trial, TrialLost when another worker has taken it, ValueError for a
        step below 1. Both ends are no Exceptions: let them pass.
        """
        if step < 1:
            raise ValueError(f"expected a step of at least 1, got {step}")
        frozen = self._call(self._storage.get_trial, self._id)
        if step not in frozen.intermediate_values:  # a retry passes steps that are known already
            self._call(self._storage.set_trial_intermediate_value, self._id, step, float(value))
        if math.isnan(value) and not math.isnan(frozen.intermediate_values.get(step - 1, math.nan)):
            return
        reason = self._judge(self._id, step)
        if reason is not None:
            raise TrialCut(reason)

    def note(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can hold with the trial; the dashboard shows it. Raises TrialLost."""
        self._call(self._storage.set_trial_user_attr, self._id, key, value)

    def attach(self, path: Path) -> str:
        """Copies a file into the study's artifacts, which the dashboard shows. Raises TrialLost, OSError."""
        return str(self._call(self._attach, self._id, path))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the storage. Raises TrialLost when the trial has been ended by somebody else."""
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            found = function(*arguments)
        except UpdateFinishedTrialError as error:
            raise TrialLost(str(error)) from error
        except RuntimeError as error:
            # What the gRPC proxy makes of the same.
            if "finished" in f"{error} {error.__cause__}":
                raise TrialLost(str(error)) from error
            raise
        return found


Objective = Callable[[Trial], Mapping[str, float]]
"""Gives the value of every objective that is not measured first, by its name."""
Measure = Callable[[Mapping[str, Any]], Mapping[str, float]]
"""Gives the objectives that are measured before training, from parameters."""


@dataclass(frozen=True)
class Work:
    """What a worker does with a trial. `measure` is needed when an objective is `measured_first`."""

    objective: Objective
    measure: Measure | None = None


def checked(values: Mapping[str, float], names: tuple[str, ...]) -> tuple[float, ...]:
    """The values of these objectives in order. Raises ValueError for one that is missing or no finite number."""
    found = plain(values)
    for name in names:
        value = found.get(name)
        if value is None:
            raise ValueError(f"the objective gave no value for '{name}'")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"the objective gave {value} for '{name}'; expected a finite number")
    return tuple(float(found[name]) for name in names)
