"""A worker: takes trials of a study until none is left, and looks after those that other workers have left behind."""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune.artifacts import attach, store_of
from tune.errors import EveryTrialFailed, StorageUnreachable, TrialCut, TrialEnded, TrialLost
from tune.judging import COSTS, CUT, REASON, SeveralObjectives, SingleObjective, reason_before
from tune.lease import BEAT, CAUSE, GRACE, Heart, Watch, origin_of, rescue, retry, this_process
from tune.samplers import build_pruner, build_sampler, distributions
from tune.study import OpenStudy, folder_of, plain, take
from tune.trial import Trial, Work, checked

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler

POLL = 1.0
"""Seconds between looks at trials that other workers still work on."""
GIVE_UP_AFTER = 10
"""When this many trials have failed and none has given a value, the rest is not tried."""
_LONGEST_CAUSE = 2000
_ENVIRONMENT = 5
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How a worker works. `index` tells workers that start at the same time apart; `timeout` is in seconds."""

    folder: Path
    index: int = 0
    timeout: float | None = None
    beat: float = BEAT
    grace: float = GRACE
    poll: float = POLL


@dataclass(frozen=True)
class Done:
    """What one worker did, in numbers of trials."""

    complete: int = 0
    cut: int = 0
    failed: int = 0
    lost: int = 0
    rescued: int = 0

    def plus(self, kind: str, count: int = 1) -> Done:
        return Done(**{**vars(self), kind: getattr(self, kind) + count})


def work(opened: OpenStudy, doing: Work, options: Options, tell: Tell = lambda line: None) -> Done:
    """Works until every trial of the study has ended, here or elsewhere, or time is up.

    A trial whose objective raises has failed, with the cause kept; the next one follows. What ends a worker instead
    offers its trial again: KeyboardInterrupt, an error with `exit_code` 5 (the machine's fault, not the trial's), and
    StorageUnreachable. Raises those, and EveryTrialFailed.
    """
    return _Worker(opened, doing, options, tell).run()


class _Worker:
    def __init__(self, opened: OpenStudy, doing: Work, options: Options, tell: Tell) -> None:
        self._opened, self._doing, self._options, self._tell = opened, doing, options, tell
        self._settings, self._storage = opened.settings, opened.storage
        self._watch = Watch(options.grace)
        self._distributions = distributions(self._settings.space)
        self._pruner = build_pruner(self._settings.pruner)
        self._artifacts = store_of(options.folder, self._settings)

    def run(self) -> Done:
        done, sampler = Done(), build_sampler(self._settings, self._seed())
        deadline = math.inf if self._options.timeout is None else time.monotonic() + self._options.timeout
        with Heart(self._storage, this_process(), self._options.beat) as heart:
            while time.monotonic() < deadline:
                study = self._opened.with_methods(sampler, self._pruner)
                rescued = rescue(study, self._watch)
                for number in rescued:
                    self._tell(f"trial {number}: its worker is gone; offered again")
                done = done.plus("rescued", len(rescued))
                taken = take(self._opened)
                if taken is None:
                    if not self._others_at_work(study):
                        break
                    time.sleep(self._options.poll)
                    continue
                done = done.plus(self._trial(study, sampler, taken, heart))
                self._give_up_if_hopeless(study)
        return done

    def _seed(self) -> int:
        """Differs between workers and between starts of one: a worker that goes on must not repeat its first points."""
        from optuna.trial import TrialState

        trials = self._opened.study.get_trials(deepcopy=False)
        begun = sum(trial.state is not TrialState.WAITING for trial in trials)
        text = f"{self._settings.seed} {self._options.index} {begun}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def _others_at_work(self, study: Study) -> bool:
        return any(not trial.state.is_finished() for trial in study.get_trials(deepcopy=False))

    def _trial(self, study: Study, sampler: BaseSampler, trial_id: int, heart: Heart) -> str:
        """One trial from its first parameter to its last value; how it ended."""
        import optuna

        try:
            heart.hold(trial_id)
            with self._offered_again_when_interrupted(study, trial_id):
                proposed = optuna.Trial(study, trial_id)
                for name, distribution in self._distributions.items():
                    proposed._suggest(name, distribution)
                kind, line = self._pursue(study, proposed, trial_id)
            self._tell(f"trial {proposed.number}: {line}")
            return kind
        except TrialLost:
            self._tell("a trial was taken over by another worker; its result here is dropped")
            return "lost"
        finally:
            heart.drop()

    def _pursue(self, study: Study, proposed: Any, trial_id: int) -> tuple[str, str]:
        """Measures, trains and tells the result. Raises TrialLost and what ends a worker."""
        from optuna.trial import TrialState

        trial = self._make(study, trial_id)
        try:
            costs, reason = self._measure(study, trial, trial_id)
            if reason is not None:
                trial.note(REASON, reason)
                self._end(study, trial_id, TrialState.PRUNED)
                return "cut", f"not trained: {reason}"
            values = self._doing.objective(replace(trial, costs=costs))
            final = checked({**values, **costs}, tuple(o.name for o in self._settings.objectives))
            self._end(study, trial_id, TrialState.COMPLETE, final)
            shown = ", ".join(f"{o.name} {v:.6g}" for o, v in zip(self._settings.objectives, final, strict=True))
            return "complete", shown
        except TrialCut as cut:
            return "cut", self._cut(study, trial, trial_id, str(cut))
        except TrialEnded:
            raise
        except Exception as error:
            if isinstance(error, StorageUnreachable) or getattr(error, "exit_code", None) == _ENVIRONMENT:
                raise
            cause = f"{type(error).__name__}: {error}" if not hasattr(error, "exit_code") else str(error)
            trial.note(CAUSE, cause[-_LONGEST_CAUSE:])
            trial.note("traceback", "".join(traceback.format_exception(error))[-_LONGEST_CAUSE:])
            self._end(study, trial_id, TrialState.FAIL)
            return "failed", f"failed: {cause}"

    def _make(self, study: Study, trial_id: int) -> Trial:
        frozen = self._storage.get_trial(trial_id)
        several = len(self._settings.objectives) > 1
        folder = folder_of(self._options.folder, self._settings) / f"trial-{origin_of(frozen)}"
        folder.mkdir(parents=True, exist_ok=True)
        return Trial(
            number=frozen.number,
            params=plain(frozen.params),
            folder=folder,
            costs={},
            _storage=self._storage,
            _id=trial_id,
            _judge=SeveralObjectives(study, self._settings) if several else SingleObjective(study),
            _attach=lambda number, path: attach(self._artifacts, self._storage, number, path),
        )

    def _measure(self, study: Study, trial: Trial, trial_id: int) -> tuple[dict[str, float], str | None]:
        """What is known before training, and why the trial is not trained."""
        names = tuple(o.name for o in self._settings.objectives if o.measured_first)
        if not names:
            return {}, None
        frozen = self._storage.get_trial(trial_id)
        known = frozen.user_attrs.get(COSTS)
        if known is None:
            if self._doing.measure is None:
                raise ValueError(f"nothing measures {', '.join(names)} before training")
            known = dict(zip(names, checked(self._doing.measure(trial.params), names), strict=True))
            trial.note(COSTS, known)
        return known, reason_before(self._settings, frozen, study.get_trials(deepcopy=False), known)

    def _cut(self, study: Study, trial: Trial, trial_id: int, reason: str) -> str:
        """Ends a trial that was cut. With several objectives Optuna's samplers take no values of a pruned trial, so

        it is told as complete with what it had reached, and marked: it counts for the sampler, not for the front.
        """
        from optuna.trial import TrialState

        trial.note(REASON, reason)
        frozen = self._storage.get_trial(trial_id)
        curve = {step: value for step, value in frozen.intermediate_values.items() if math.isfinite(value)}
        if len(self._settings.objectives) == 1 or not curve:
            self._end(study, trial_id, TrialState.PRUNED)
        else:
            trial.note(CUT, max(curve))
            costs = frozen.user_attrs.get(COSTS, {})
            values = (curve[max(curve)], *(costs[o.name] for o in self._settings.objectives[1:]))
            self._end(study, trial_id, TrialState.COMPLETE, values)
        return reason if reason.startswith("cut") else f"cut: {reason}"

    def _end(self, study: Study, trial_id: int, state: Any, values: tuple[float, ...] | None = None) -> None:
        """Tells the end of a trial. Raises TrialLost when somebody else has told one."""
        from optuna.exceptions import UpdateFinishedTrialError

        number = int(self._storage.get_trial(trial_id).number)
        try:
            study.tell(number, list(values) if values is not None else None, state=state)
        except (UpdateFinishedTrialError, ValueError) as error:
            if self._storage.get_trial(trial_id).state.is_finished():
                raise TrialLost(str(error)) from error
            raise

    @contextmanager
    def _offered_again_when_interrupted(self, study: Study, trial_id: int) -> Iterator[None]:
        """A worker that stops on its own account gives its trial back before it goes."""
        from optuna.trial import TrialState

        try:
            yield
        except TrialLost:
            raise
        except BaseException:
            with suppress(Exception):  # what is not told here is found by the lease
                self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
                study.add_trial(retry(self._storage.get_trial(trial_id)))
            raise

    def _give_up_if_hopeless(self, study: Study) -> None:
        """Raises EveryTrialFailed when the first trials have all failed for causes of their own."""
        from optuna.trial import TrialState

        trials = study.get_trials(deepcopy=False)
        failed = [trial for trial in trials if trial.state is TrialState.FAIL and CAUSE in trial.user_attrs]
        valued = any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in trials)
        if not valued and len(failed) >= GIVE_UP_AFTER:
            raise EveryTrialFailed(
                f"the first {len(failed)} trials of '{self._settings.name}' all failed; the first one of them:\n"
                f"{failed[0].user_attrs[CAUSE]}"
            )
