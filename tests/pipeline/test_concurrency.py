"""Several processes on one recipe and one store."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from compress.errors import ExitCode
from compress.pipeline.events import read_events
from tests.pipeline.conftest import STEPS, Project, digests, fork, in_children, wait


def test_of_eight_processes_on_one_recipe_one_computes_each_result_and_seven_wait_and_reuse(project: Project) -> None:
    pause = "stages.baseline.pause=0.3"
    assert in_children(8, lambda index: int(project.run(pause).exit_code)) == [0] * 8
    assert {stage: count for stage, count in project.ran.items() if stage != "prepare"} == {
        "baseline": 1,
        "small": 1,
        "student": 1,
        "files": 2,
    }
    folders = list((project.path / "runs/chain").iterdir())
    events = [Counter(event["event"] for event in read_events(folder / "events.jsonl")) for folder in folders]
    assert len(folders) == 8
    assert sum(count["stage-finished"] for count in events) == STEPS
    assert sum(count["stage-reused"] for count in events) == 7 * STEPS
    assert sum(count["stage-waiting"] for count in events) >= 7
    assert len({tuple(sorted(digests(folder).items())) for folder in folders}) == 1


def test_who_waits_for_a_process_that_is_killed_computes_in_its_place(project: Project) -> None:
    slow = "stages.baseline.pause=2"
    victim = fork(lambda: int(project.run(slow).exit_code))
    _wait_for_line(project, "baseline")
    waiting = fork(lambda: int(project.run(slow).exit_code))
    time.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    assert wait(victim) == -signal.SIGKILL
    assert wait(waiting) == 0
    assert project.ran["baseline"] == 2


def test_who_waits_for_a_stage_that_fails_tries_it_itself(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        monkeypatch.setenv("FAKE_FAIL", "small:stage")
        return int(project.run("stages.baseline.pause=0.2").exit_code)

    failing = fork(fail)
    _wait_for_line(project, "baseline")
    assert project.run("stages.baseline.pause=0.2").exit_code is ExitCode.OK
    assert wait(failing) in (0, ExitCode.STAGE_FAILED)  # 0 when the other one computed it first


def test_different_recipes_in_one_store_do_not_wait_for_each_other(project: Project) -> None:
    slow = fork(lambda: int(project.run("stages.baseline.pause=3").exit_code))
    _wait_for_line(project, "baseline")
    started = time.monotonic()
    assert project.run("stages.baseline.size=100").exit_code is ExitCode.OK
    took = time.monotonic() - started
    os.kill(slow, signal.SIGKILL)
    assert wait(slow) == -signal.SIGKILL, f"the other one had ended already, after {took:.1f} s"
    assert not [event for event in project.events if event.kind == "stage-waiting"]


def _wait_for_line(project: Project, stage: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not project.ran[stage]:
        assert time.monotonic() < end, f"{stage} did not start"
        time.sleep(0.02)
    assert Path(os.environ["FAKE_LOG"]).exists()
