"""Objectives of milliseconds, studies over them, and workers in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from tune.lease import superseded
from tune.settings import Objective, Pruner, StudySettings
from tune.space import parse_space
from tune.storage import open_storage
from tune.study import OpenStudy, create
from tune.trial import Trial, Work

ROOT = Path(__file__).parents[2]
SPACE = {"rate": {"low": 1e-5, "high": 1e-2, "log": True}, "batch": [32, 64, 128]}
STEPS = 5


def settings(**changes: Any) -> StudySettings:
    space = changes.pop("space", SPACE)
    defaults: dict[str, Any] = {
        "name": "toy",
        "space": parse_space(space),
        "objectives": (Objective("score"),),
        "trials": 6,
        "pruner": Pruner("none"),
        "function": "tests.tune.toys:make",
    }
    return StudySettings(**{**defaults, **changes})


def make(payload: Mapping[str, Any]) -> Work:
    """What `python -m tune worker` calls."""
    return Work(lambda trial: steps(trial, payload.get("pause", 0.0)))


def steps(trial: Trial, pause: float = 0.0) -> dict[str, float]:
    """Reports five steps and keeps a checkpoint after each; goes on from the checkpoint that it finds."""
    checkpoint = trial.folder / "checkpoint.json"
    done = json.loads(checkpoint.read_text())["step"] if checkpoint.exists() else 0
    log = trial.folder.parent / "ran.log"
    score = 0.0
    for step in range(done + 1, STEPS + 1):
        time.sleep(pause)
        with log.open("a") as file:
            file.write(f"{trial.folder.name} {step} {os.getpid()}\n")
        score = 1 - abs(trial.params["rate"] - 1e-3) * 100 - 0.1 / step
        temporary = checkpoint.with_name(f"{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"step": step}))
        os.replace(temporary, checkpoint)
        trial.report(step, score)
    return {"score": 1 - abs(trial.params["rate"] - 1e-3) * 100}


def opened(path: Path, **changes: Any) -> OpenStudy:
    return create(open_storage(path / "toy.journal"), settings(**changes))


def worker(url: str | Path, folder: Path, *options: str) -> subprocess.Popen[str]:
    """A worker process, in a session of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tune", "worker", str(url), "--folder", str(folder), *options]
    return subprocess.Popen(
        command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def states(study: OpenStudy) -> list[str]:
    """States of the trials that count, by number."""
    trials = study.study.get_trials(deepcopy=False)
    again = superseded(trials)
    return [trial.state.name for trial in trials if trial.number not in again]


def ran(folder: Path, name: str = "toy") -> list[tuple[str, int]]:
    """The steps that trials have run, in order: (folder of the trial, step)."""
    path = folder / name / "ran.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line.split()[0], int(line.split()[1])) for line in lines]


def waiting(study: OpenStudy) -> int:
    return sum(trial.state is TrialState.WAITING for trial in study.study.get_trials(deepcopy=False))


def until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.05)
