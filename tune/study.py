"""Making a study and opening it again: its settings lie in the storage, and its trials are offered from the start.

Every trial of a study is a place that exists before it is worked on, and taking one is a single step that one worker
can win. So a study of 40 trials has 40, whatever workers do at the same time, and a trial that lost its worker is
offered again instead of being replaced by another.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune.errors import StudyChanged, UsageError
from tune.lease import CAUSE, RETRY_OF, superseded
from tune.samplers import design
from tune.settings import DESIGNS, StudySettings, check
from tune.space import Choice

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

SETTINGS, SLOT = "tune:settings", "tune:slot"


@dataclass(frozen=True)
class OpenStudy:
    """A study in its storage. `study` reads it; samplers and pruners come in with `with_methods`."""

    settings: StudySettings
    storage: BaseStorage
    study: Study

    def with_methods(self, sampler: BaseSampler | None, pruner: BasePruner | None) -> Study:
        """The study with a sampler and a pruner. Remembers nothing of what was read before."""
        import optuna

        return optuna.load_study(study_name=self.settings.name, storage=self.storage, sampler=sampler, pruner=pruner)


def create(storage: BaseStorage, settings: StudySettings) -> OpenStudy:
    """Makes a study with all its trials waiting, or opens the one of this name and adds the trials it lacks.

    Raises UsageError for wrong settings, StudyChanged when the study of this name searches another space, has other
    objectives or another identity.
    """
    import optuna
    from optuna.exceptions import DuplicatedStudyError

    check(settings)
    points = design(settings)
    if points is not None:
        settings = replace(settings, trials=len(points))
    directions = [objective.direction for objective in settings.objectives]
    try:
        study = optuna.create_study(storage=storage, study_name=settings.name, directions=directions)
    except DuplicatedStudyError:
        study = optuna.load_study(study_name=settings.name, storage=storage)
        _check_same(study, settings)
    study.set_user_attr(SETTINGS, settings.to_json())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ExperimentalWarning
        study.set_metric_names([objective.name for objective in settings.objectives])
    opened = OpenStudy(settings, storage, study)
    _offer(opened, points)
    return opened


def open_study(storage: BaseStorage, name: str | None = None) -> OpenStudy:
    """A study that exists; the only one when no name is given. Raises UsageError that lists what there is."""
    import optuna

    from edge_runtime.nearest import suggestion

    names = sorted(frozen.study_name for frozen in storage.get_all_studies())
    if name is None:
        if len(names) != 1:
            found = f"it has {len(names)}: {', '.join(names)}" if names else "it has none"
            raise UsageError([f"study: name one of the storage's studies; {found}"])
        name = names[0]
    if name not in names:
        raise UsageError([f"study: nothing is called '{name}' in this storage{suggestion(name, names)}"])
    study = optuna.load_study(study_name=name, storage=storage)
    return OpenStudy(_stored(study), storage, study)


def _stored(study: Study) -> StudySettings:
    try:
        return StudySettings.from_json(study.user_attrs[SETTINGS])
    except (KeyError, TypeError, UsageError) as error:
        raise StudyChanged(
            [f"study: '{study.study_name}' was not made by this version of Edgepress; give the new one another name"]
        ) from error


def _check_same(study: Study, settings: StudySettings) -> None:
    """Raises StudyChanged that says in which ways the stored study is another one."""
    stored = _stored(study)
    # Through JSON, so that a tuple and a list of the same values are the same.
    differences = list(stored.space.difference(settings.space))
    before, after = (json.dumps([(o.name, o.direction) for o in each.objectives]) for each in (stored, settings))
    if before != after:
        names = ", ".join(f"{o.direction} {o.name}" for o in stored.objectives)
        differences.append(f"its objectives are: {names}")
    if stored.identity != settings.identity:
        differences.append("what is trained has changed (the recipe, or its data)")
    if (stored.sampler in DESIGNS or settings.sampler in DESIGNS) and stored.sampler != settings.sampler:
        differences.append(f"its trials were laid out by the sampler {stored.sampler}")
    if differences:
        raise StudyChanged(
            [
                f"study: '{settings.name}' exists and is another one: {'; '.join(differences)}. "
                "Its trials cannot be compared with new ones; give this study another name, or go back to what it was"
            ]
        )


def _offer(opened: OpenStudy, points: list[dict[str, Choice]] | None) -> None:
    """Adds waiting trials until there are as many as asked for."""
    from optuna.trial import TrialState, create_trial

    trials = opened.study.get_trials(deepcopy=False)
    again = superseded(trials)
    # A trial that failed without a cause and was not offered again lost its worker and its rescuer at once.
    taken = {
        trial.system_attrs.get(SLOT)
        for trial in trials
        if trial.number not in again and (trial.state is not TrialState.FAIL or CAUSE in trial.user_attrs)
    }
    for slot in range(opened.settings.trials):
        if slot not in taken:
            attributes: dict[str, Any] = {SLOT: slot}
            if points is not None:
                attributes["fixed_params"] = points[slot]
            opened.study.add_trial(create_trial(state=TrialState.WAITING, system_attrs=attributes))


def take(opened: OpenStudy) -> int | None:
    """The id of a waiting trial that now belongs to the caller; None when none is waiting.

    What was begun already comes first.
    """
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    waiting = opened.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    for trial in sorted(waiting, key=lambda trial: (RETRY_OF not in trial.system_attrs, trial.number)):
        try:
            if opened.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                return int(trial._trial_id)
        except (UpdateFinishedTrialError, RuntimeError):  # another worker has had it, and is done already
            continue
    return None


def find_function(path: str) -> Callable[..., Any]:
    """What `package.module:name` names. Raises UsageError."""
    import importlib

    from edge_runtime.nearest import suggestion

    module, _, name = path.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError([f"function: cannot find the module '{error.name}' of {path} on the Python path"]) from error
    if not callable(getattr(loaded, name, None)):
        known = [known for known in vars(loaded) if not known.startswith("_")]
        raise UsageError([f"function: module '{module}' has no function '{name}'{suggestion(name, known)}"])
    found: Callable[..., Any] = getattr(loaded, name)
    return found


def folder_of(base: Path, settings: StudySettings) -> Path:
    """Where the trials of a study keep their checkpoints, under `base`."""
    return base / settings.name


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as plain Python values: samplers give numpy's."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
