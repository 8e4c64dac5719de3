"""Killed at any moment, a run leaves a readable store, and the next run ends like one that was never disturbed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from compress.errors import ExitCode
from compress.pipeline import cache
from tests.pipeline.conftest import Project, digests, fork, wait

KILLS = 24
ENOUGH = KILLS // 2
"""So many have to come before the end: a run that is forked, or resumed, can be quicker than the one that was timed."""


@pytest.fixture
def undisturbed(project: Project) -> dict[str, str]:
    return digests(project.run(store=project.path / "undisturbed", runs=project.path / "first").directory)


def test_sigkill_at_random_moments_never_changes_what_a_rerun_ends_with(
    project: Project, undisturbed: dict[str, str]
) -> None:
    slower = ("stages.baseline.pause=0.01", "stages.small.pause=0.01", "stages.files.pause=0.005")
    started = time.monotonic()
    assert wait(fork(lambda: int(project.run(*slower, store=project.path / "timed").exit_code))) == 0
    whole = time.monotonic() - started
    rng = random.Random(20)
    killed = 0
    for number in count():
        if number >= KILLS and killed >= ENOUGH and number % 3 == 0:
            break
        assert number < 5 * KILLS, "the kills came too late to test anything"
        store = project.path / f"store-{number // 3}"  # three kills in a row on the same store
        pid = fork(lambda store=store: int(project.run(*slower, store=store).exit_code))
        time.sleep(rng.uniform(0, whole))
        os.kill(pid, signal.SIGKILL)
        killed += wait(pid) == -signal.SIGKILL
        assert cache.verify(store).damaged == ()
        if number % 3 == 2:
            result = project.run(*slower, store=store)
            assert result.exit_code is ExitCode.OK
            assert digests(result.directory) == undisturbed
            assert not any((store / "work").iterdir())


CALLS = ("os.replace", "os.rename", "os.link", "os.fsync", "Path.unlink", "shutil.rmtree")


@pytest.mark.parametrize("points", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_sigkill_before_any_change_of_the_store_leaves_it_readable(
    project: Project, undisturbed: dict[str, str], points: int
) -> None:
    for call in CALLS:
        count = _count(project, call)
        assert count > 0
        for nth in sorted(random.Random(call).sample(range(count), min(count, points))):
            store = project.path / f"{call}-{nth}"
            pid = fork(lambda: int(_run_and_die(project, store, call, nth)))  # noqa: B023, it is called at once
            assert wait(pid) == -signal.SIGKILL
            assert cache.verify(store).damaged == ()
            result = project.run(store=store)
            assert result.exit_code is ExitCode.OK
            assert digests(result.directory) == undisturbed


def _run_and_die(project: Project, store: Path, call: str, nth: int) -> int:
    calls = iter(range(10**9))

    def die() -> None:
        if next(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    before(call, die)
    return int(project.run(store=store).exit_code)


def _count(project: Project, call: str) -> int:
    """How often an undisturbed run makes a call."""
    reading, writing = os.pipe()

    def count() -> int:
        counted = [0]
        before(call, lambda: counted.__setitem__(0, counted[0] + 1))
        code = int(project.run(store=project.path / f"count-{call}").exit_code)
        os.write(writing, str(counted[0]).encode())
        return code

    assert wait(fork(count)) == 0
    number = int(os.read(reading, 20))
    os.close(reading)
    os.close(writing)
    return number


def before(call: str, action: Callable[[], object]) -> None:
    """Does `action` before every call of a function that changes files. For child processes: it is never undone."""
    import shutil

    holder: object = {"os": os, "Path": Path, "shutil": shutil}[call.split(".")[0]]
    name = call.split(".")[1]
    original = getattr(holder, name)

    def replaced(*given: object, **options: object) -> object:
        action()
        return original(*given, **options)

    setattr(holder, name, replaced)
