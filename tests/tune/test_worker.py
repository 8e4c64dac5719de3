"""What a worker does with trials that end well, are cut, fail, or are taken from it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from tests.tune.toys import opened, settings, states, steps
from tune.errors import EveryTrialFailed, StorageUnreachable, TrialCut, TuneError
from tune.results import best, records
from tune.settings import Objective, Pruner
from tune.storage import open_storage
from tune.study import create, take
from tune.trial import Trial, Work
from tune.worker import Options, work


def test_every_trial_is_worked_on_and_a_second_worker_finds_nothing_left(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=4)
    lines: list[str] = []
    assert work(study, Work(steps), Options(tmp_path), lines.append).complete == 4
    assert lines[0].startswith("trial 0: score ")
    assert work(study, Work(steps), Options(tmp_path)).complete == 0


def test_a_trial_that_fails_keeps_its_cause_and_the_next_one_follows(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        if trial.number == 1:
            raise ZeroDivisionError("a share of nothing")
        return {"score": 1.0}

    study = opened(tmp_path, trials=3)
    done = work(study, Work(objective), Options(tmp_path))
    assert (done.complete, done.failed) == (2, 1)
    failed = records(study)[1]
    assert (failed.state, failed.cause) == ("failed", "ZeroDivisionError: a share of nothing")
    assert "test_worker.py" in study.study.trials[1].user_attrs["traceback"]


def test_when_every_trial_fails_the_first_cause_is_shown(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        raise ValueError(f"wrong from the start ({trial.number})")

    study = opened(tmp_path, trials=3)
    work(study, Work(objective), Options(tmp_path))
    with pytest.raises(EveryTrialFailed) as raised:
        best(records(study), study.settings)
    assert raised.value.exit_code == 3
    assert str(raised.value).splitlines()[-1] == "ValueError: wrong from the start (0)"


def test_a_study_whose_first_ten_trials_fail_is_given_up(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        raise ValueError("no")

    study = opened(tmp_path, trials=30)
    with pytest.raises(EveryTrialFailed, match="the first 10 trials"):
        work(study, Work(objective), Options(tmp_path))
    assert states(study).count("WAITING") == 20


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({}, "gave no value for 'score'"),
        ({"score": math.nan}, "gave nan for 'score'"),
        ({"score": math.inf}, "gave inf for 'score'"),
        ({"score": "high"}, "gave high for 'score'"),
        ({"score": True}, "gave True for 'score'"),
    ],
)
def test_a_result_that_is_no_finite_number_is_a_failure_with_a_cause(
    values: dict[str, Any], cause: str, tmp_path: Path
) -> None:
    study = opened(tmp_path, trials=1)
    work(study, Work(lambda trial: values), Options(tmp_path))
    assert cause in (records(study)[0].cause or "")


def test_nan_at_one_epoch_neither_ends_a_trial_nor_hides_its_other_epochs(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        for step in range(1, 6):
            trial.report(step, math.nan if step == 3 and trial.number > 3 else 0.5 + step / 100)
        return {"score": 0.5}

    study = opened(tmp_path, trials=6, pruner=Pruner("median", startup=3))
    done = work(study, Work(objective), Options(tmp_path))
    assert (done.complete, done.cut, done.failed) == (6, 0, 0)
    assert math.isnan(study.study.trials[5].intermediate_values[3])


def test_a_weak_trial_is_cut_and_says_where(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        for step in range(1, 6):
            trial.report(step, 0.1 if trial.number == 5 else 0.9)
        return {"score": 0.9}

    study = opened(tmp_path, trials=6, pruner=Pruner("median", startup=3))
    assert work(study, Work(objective), Options(tmp_path)).cut == 1
    found = records(study)[5]
    assert (found.state, found.steps, found.reason) == ("cut", 2, "cut at step 2")


def test_a_cut_passes_through_code_that_catches_exceptions(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        try:
            raise TrialCut("enough")
        except Exception:
            return {"score": 1.0}

    study = opened(tmp_path, trials=1)
    assert work(study, Work(objective), Options(tmp_path)).cut == 1


def test_a_worker_whose_trial_was_taken_drops_its_result(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    other = opened(tmp_path, trials=1)

    def objective(trial: Trial) -> dict[str, float]:
        other.storage.set_trial_state_values(trial._id, TrialState.FAIL)
        trial.report(1, 0.5)
        raise AssertionError("unreachable")

    done = work(study, Work(objective), Options(tmp_path))
    assert (done.lost, done.complete, done.failed) == (1, 0, 0)


def test_the_same_is_noticed_by_a_worker_that_reports_nothing(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    other = opened(tmp_path, trials=1)

    def objective(trial: Trial) -> dict[str, float]:
        other.storage.set_trial_state_values(trial._id, TrialState.FAIL)
        return {"score": 1.0}

    assert work(study, Work(objective), Options(tmp_path)).lost == 1
    assert study.study.trials[0].value is None


class FullDisk(TuneError):
    exit_code = 5


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FullDisk("the disk is full"), StorageUnreachable("away")])
def test_what_ends_a_worker_gives_its_trial_back(error: BaseException, tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)

    def objective(trial: Trial) -> dict[str, float]:
        trial.report(1, 0.5)
        raise error

    with pytest.raises(type(error)):
        work(study, Work(objective), Options(tmp_path))
    assert states(study) == ["WAITING"]
    assert study.study.trials[-1].intermediate_values == {1: 0.5}


def test_a_worker_waits_for_trials_of_others_so_that_it_can_take_them_over(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    take(study)  # by nobody: found after the grace
    done = work(study, Work(steps), Options(tmp_path, grace=0.2, poll=0.05))
    assert (done.rescued, done.complete) == (1, 1)


def test_time_that_is_up_ends_a_worker_between_trials(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=50)
    started = time.monotonic()
    work(study, Work(lambda trial: time.sleep(0.05) or {"score": 1.0}), Options(tmp_path, timeout=0.3))
    assert time.monotonic() - started < 10
    assert 0 < states(study).count("COMPLETE") < 50
    assert "RUNNING" not in states(study)


def test_a_step_below_one_is_refused(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    work(study, Work(lambda trial: trial.report(0, 0.5) or {}), Options(tmp_path))
    assert "expected a step of at least 1, got 0" in (records(study)[0].cause or "")


TWO = (Objective("accuracy"), Objective("latency", "minimize", measured_first=True))
WIDTH = {"width": {"low": 1, "high": 20}}


def measure(params: Mapping[str, Any]) -> dict[str, float]:
    return {"latency": params["width"] / 1000}


def accuracy(trial: Trial) -> dict[str, float]:
    """Saturates at a width of 8: wider networks cost more and gain nothing."""
    assert trial.costs == measure(trial.params)
    top = min(trial.params["width"], 8) / 10
    for step in range(1, 9):
        trial.report(step, top * (1 - 0.5**step))
    return {"accuracy": top * (1 - 0.5**8)}


def test_with_two_objectives_dominated_architectures_are_not_trained_and_weak_ones_are_cut(tmp_path: Path) -> None:
    study = create(
        open_storage(tmp_path / "toy.journal"),
        settings(space=WIDTH, objectives=TWO, trials=40, sampler="random", pruner=Pruner("median")),
    )
    done = work(study, Work(accuracy, measure), Options(tmp_path))
    assert done.complete + done.cut == 40
    found = records(study)
    untrained = [record for record in found if record.state == "cut" and record.steps == 0]
    assert untrained
    tried = {record.params["width"] for record in found if record.state == "complete"}
    assert all(record.params["width"] > 8 or record.params["width"] in tried for record in untrained)
    cut = [record for record in found if record.state == "cut" and record.steps > 0]
    assert all(record.params["width"] > 8 for record in cut)
    assert sum(record.steps for record in found) < 40 * 8 * 0.8


def test_a_limit_on_what_is_measured_first_spares_the_training(tmp_path: Path) -> None:
    study = create(
        open_storage(tmp_path / "toy.journal"),
        settings(space=WIDTH, objectives=TWO, trials=10, sampler="qmc", limits={"latency": 0.01}),
    )
    work(study, Work(accuracy, measure), Options(tmp_path))
    for record in records(study):
        assert (record.steps == 0) == (record.values["latency"] > 0.01)
        assert record.steps or "beyond the limit of 0.01" in (record.reason or "")


def test_costs_are_measured_once_also_for_a_retry(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(params: Mapping[str, Any]) -> dict[str, float]:
        calls.append(1)
        return measure(params)

    def interrupted(trial: Trial) -> dict[str, float]:
        raise KeyboardInterrupt

    storage = open_storage(tmp_path / "toy.journal")
    study = create(storage, settings(space=WIDTH, objectives=TWO, trials=1))
    with pytest.raises(KeyboardInterrupt):
        work(study, Work(interrupted, counted), Options(tmp_path))
    work(study, Work(accuracy, counted), Options(tmp_path))
    assert states(study) == ["COMPLETE"]
    assert len(calls) == 1


@pytest.mark.parametrize("sampler", ["tpe", "nsga-ii"])
def test_samplers_of_two_objectives_take_cut_trials_as_they_are(sampler: Any, tmp_path: Path) -> None:
    study = create(
        open_storage(tmp_path / "toy.journal"),
        settings(space=WIDTH, objectives=TWO, trials=30, sampler=sampler, pruner=Pruner("median", startup=3)),
    )
    done = work(study, Work(accuracy, measure), Options(tmp_path))
    assert done.complete + done.cut == 30
    assert done.failed == 0


def test_a_worker_that_starts_again_does_not_repeat_its_first_points(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=4)

    def interrupted(trial: Trial) -> dict[str, float]:
        if trial.number == 1:
            raise KeyboardInterrupt
        return {"score": 1.0}

    with pytest.raises(KeyboardInterrupt):
        work(study, Work(interrupted), Options(tmp_path))
    work(study, Work(steps), Options(tmp_path))
    assert len({record.params["rate"] for record in records(study) if record.state == "complete"}) == 4


def test_what_was_begun_comes_before_what_was_not(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=3)

    def interrupted(trial: Trial) -> dict[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(study, Work(interrupted), Options(tmp_path))
    order: list[int] = []
    work(study, Work(lambda trial: order.append(trial.number) or {"score": 1.0}), Options(tmp_path))
    assert order == [3, 1, 2]
