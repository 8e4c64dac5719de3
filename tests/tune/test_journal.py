"""A journal outlives processes that are killed while they hold its lock or write a line."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from optuna.storages.journal._storage import JournalOperation
from optuna.trial import TrialState

from tests.tune.toys import opened
from tune import journal
from tune.journal import KernelLock
from tune.storage import open_storage
from tune.study import open_study


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    journal = tmp_path / "a.journal"
    ready, wrote = os.pipe()
    child = os.fork()
    if child == 0:
        KernelLock(journal).acquire()
        os.write(wrote, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lock = KernelLock(journal)
    started = time.monotonic()
    assert lock.acquire()
    lock.release()
    assert time.monotonic() - started < 1


def test_a_line_that_a_kill_cut_off_is_taken_away_before_the_next_one(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=2)
    with (tmp_path / "toy.journal").open("ab") as file:
        file.write(b'{"op_code":4,"worker_id":"half')
    # Read while the part is still there, then written by two who had it open already, then read anew.
    assert len(study.study.get_trials()) == 2
    study.study.set_user_attr("after", 1)
    study.study.set_user_attr("after", 2)
    assert open_study(open_storage(tmp_path / "toy.journal")).study.user_attrs["after"] == 2


def test_a_journal_of_nothing_but_a_part_becomes_empty(tmp_path: Path) -> None:
    journal = tmp_path / "a.journal"
    journal.write_bytes(b"x" * 200_000)
    lock = KernelLock(journal)
    lock.acquire()
    lock.release()
    assert journal.read_bytes() == b""


def test_the_codes_of_entries_are_those_of_optuna() -> None:
    assert (journal._CREATE_STUDY, journal._SET_TRIAL_STATE) == (
        JournalOperation.CREATE_STUDY, JournalOperation.SET_TRIAL_STATE_VALUES,
    )  # fmt: skip
    assert {state.value for state in TrialState if state.is_finished()} == set(journal._ENDED)
