"""A trial is given to another worker when its own is gone, and never while its own lives."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tune.toys import opened, ran, states, steps, until, worker
from tune.lease import LEASE, MOST_FRUITLESS, RETRY_OF, Heart, Owner, Watch, is_gone, origin_of, rescue, this_process
from tune.results import records
from tune.study import OpenStudy, take
from tune.trial import Work
from tune.worker import Options, work


def leased(study: OpenStudy, owner: Owner) -> int:
    """A running trial of this owner."""
    taken = take(study)
    assert taken is not None
    Heart(study.storage, owner).hold(taken)
    return taken


def test_this_process_lives_and_one_that_has_ended_is_gone() -> None:
    owner = this_process()
    assert is_gone(owner) is False
    child = os.fork()
    if child == 0:
        os._exit(0)
    dead = replace(owner, process=child)
    until(lambda: is_gone(replace(dead, started="")) is not None)
    assert is_gone(dead) is True  # its remains are there until it is waited for
    os.waitpid(child, 0)
    assert is_gone(dead) is True


def test_another_process_with_the_same_number_is_not_the_owner() -> None:
    assert is_gone(replace(this_process(), started="1")) is True


def test_of_another_host_nothing_is_known() -> None:
    assert is_gone(replace(this_process(), host="elsewhere")) is None
    assert is_gone(replace(this_process(), boot="before the restart")) is None


def test_a_living_worker_of_this_host_keeps_its_trial_however_long_it_is_silent(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    leased(study, this_process())
    watch = Watch(grace=0.0)
    for _ in range(3):
        assert rescue(study.study, watch) == []
        time.sleep(0.01)
    assert states(study) == ["RUNNING"]


def test_a_dead_worker_of_this_host_loses_its_trial_at_once(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    leased(study, replace(this_process(), started="1"))
    assert rescue(study.study, Watch(grace=1000.0)) == [0]
    assert [trial.state.name for trial in study.study.trials] == ["FAIL", "WAITING"]


def test_a_worker_of_another_host_loses_it_when_its_beats_stand_still_for_the_grace(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    far = replace(this_process(), host="elsewhere")
    taken = leased(study, far)
    watch, heart = Watch(grace=0.2), Heart(study.storage, far)
    heart.hold(taken)
    for _ in range(4):  # it beats, so that it lives although the grace has passed
        assert rescue(study.study, watch) == []
        time.sleep(0.1)
        heart.hold(taken)
    assert rescue(study.study, watch) == []
    time.sleep(0.3)
    assert rescue(study.study, watch) == [0]


def test_a_trial_that_was_taken_and_never_leased_is_found_after_the_grace(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    take(study)
    watch = Watch(grace=0.05)
    assert rescue(study.study, watch) == []
    time.sleep(0.1)
    assert rescue(study.study, watch) == [0]


def test_of_two_that_see_a_dead_worker_one_offers_its_trial_again(tmp_path: Path) -> None:
    first, second = opened(tmp_path, trials=1), opened(tmp_path, trials=1)
    leased(first, replace(this_process(), started="1"))
    before = second.study.get_trials(deepcopy=False)
    assert rescue(first.study, Watch()) == [0]
    second.study.get_trials = lambda **_: before  # type: ignore[method-assign,assignment]  # what it saw a moment ago
    assert rescue(second.study, Watch()) == []
    assert len(first.study.trials) == 2


def test_the_retry_keeps_parameters_reports_and_folder(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    taken = leased(study, replace(this_process(), started="1"))
    from optuna import Trial

    value = Trial(study.study, taken).suggest_float("rate", 1e-5, 1e-2, log=True)
    study.storage.set_trial_intermediate_value(taken, 1, 0.5)
    rescue(study.study, Watch())
    again = study.study.trials[1]
    assert again.system_attrs["fixed_params"] == {"rate": value}
    assert again.intermediate_values == {1: 0.5}
    assert (origin_of(again), again.system_attrs[RETRY_OF]) == (0, [0])
    assert LEASE not in again.system_attrs


def test_a_trial_that_takes_every_worker_with_it_is_given_up(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    for _ in range(MOST_FRUITLESS):
        leased(study, replace(this_process(), started="1"))
        rescue(study.study, Watch())
    assert take(study) is None
    assert len(study.study.trials) == MOST_FRUITLESS
    last = records(study)[-1]
    assert (last.state, last.cause) == (
        "failed", "5 workers in a row ended without a word while they worked on this trial",
    )  # fmt: skip


def test_a_trial_that_gets_further_with_every_worker_is_never_given_up(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    for step in range(1, 3 * MOST_FRUITLESS):
        taken = leased(study, replace(this_process(), started="1"))
        study.storage.set_trial_intermediate_value(taken, step, 0.5)
        rescue(study.study, Watch())
    assert states(study) == ["WAITING"]


def test_a_heart_beats_while_it_holds_a_trial(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1)
    taken = take(study)
    assert taken is not None
    with Heart(study.storage, this_process(), beat=0.02) as heart:
        heart.hold(taken)
        until(lambda: study.storage.get_trial(taken).system_attrs[LEASE]["beat"] > 3)
        heart.drop()
        time.sleep(0.1)
        count = study.storage.get_trial(taken).system_attrs[LEASE]["beat"]
        time.sleep(0.1)
        assert study.storage.get_trial(taken).system_attrs[LEASE]["beat"] == count


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_trial_of_a_killed_worker_goes_on_from_its_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    study = opened(tmp_path, trials=1, payload={"pause": 0.4})
    process = worker(tmp_path / "toy.journal", tmp_path)
    until(lambda: len(ran(tmp_path)) >= 2)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    work(study, Work(steps), Options(tmp_path))
    assert states(study) == ["COMPLETE"]
    done = [step for _, step in ran(tmp_path)]
    # One step at most was begun and not kept.
    assert sorted(set(done)) == [1, 2, 3, 4, 5]
    assert len(done) <= 6
    assert max(study.study.trials[-1].intermediate_values) == 5
