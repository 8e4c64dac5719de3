"""One study and several processes, some of them killed: over the journal, PostgreSQL and the gRPC proxy."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.tune.toys import settings, states, worker
from tune.lease import origin_of
from tune.storage import open_storage
from tune.study import OpenStudy, create


def work_with_kills(study: OpenStudy, url: str, folder: Path, workers: int, kill_every: float) -> int:
    """Runs workers until the study is done, killing one now and then and starting another; the number of kills."""
    generator, kills, last = random.Random(0), 0, time.monotonic()
    running = [worker(url, folder, "--index", str(index)) for index in range(workers)]
    deadline = time.monotonic() + 240
    while any(process.poll() is None for process in running):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if kill_every and time.monotonic() - last > kill_every and "WAITING" in states(study):
            victim = generator.randrange(workers)
            running[victim].send_signal(signal.SIGKILL)
            running[victim].communicate()
            kills, last = kills + 1, time.monotonic()
            running[victim] = worker(url, folder, "--index", str(workers + kills))
    for process in running:
        assert process.returncode == 0, process.communicate()[1]
    return kills


def check_whole(study: OpenStudy, trials: int) -> None:
    """None lost, none doubled, none left running."""
    assert states(study) == ["COMPLETE"] * trials
    ended = [trial for trial in study.study.trials if trial.state.name == "COMPLETE"]
    assert set(Counter(origin_of(trial) for trial in ended).values()) == {1}
    assert {trial.system_attrs["tune:slot"] for trial in ended} == set(range(trials))


def test_workers_that_are_killed_lose_no_trial_of_a_journal(tmp_path: Path) -> None:
    study = create(open_storage(tmp_path / "toy.journal"), settings(trials=30, payload={"pause": 0.05}))
    assert work_with_kills(study, str(tmp_path / "toy.journal"), tmp_path, 2, kill_every=3.0) > 0
    check_whole(study, 30)


def test_workers_over_postgresql_share_one_study(postgres: str, tmp_path: Path) -> None:
    study = create(open_storage(postgres), settings(trials=8))
    work_with_kills(study, postgres, tmp_path, 2, kill_every=0)
    check_whole(study, 8)


def test_workers_over_the_proxy_share_one_study(proxy: str, tmp_path: Path) -> None:
    study = create(open_storage(proxy), settings(trials=8))
    work_with_kills(study, proxy, tmp_path, 2, kill_every=0)
    check_whole(study, 8)


@pytest.mark.slow
def test_workers_that_are_killed_lose_no_trial_over_postgresql(postgres: str, tmp_path: Path) -> None:
    study = create(open_storage(postgres), settings(name="kills", trials=40, payload={"pause": 0.05}))
    assert work_with_kills(study, postgres, tmp_path, 4, kill_every=4.0) > 0
    check_whole(study, 40)
