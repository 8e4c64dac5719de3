"""A recipe of fake stages in a folder of its own, and ways to run it here and in other processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compress.pipeline.events import Event, read_events
from compress.pipeline.plan import Plan, plan
from compress.pipeline.run import RunResult, run
from compress.pipeline.store import Store
from tests.pipeline.fakes import registry

RECIPE = """\
recipe: 1
name: chain
seed: 7
task: fake
data: {source: folder, folder: "${DATA}"}
stages:
  - id: baseline
    use: make
    size: 2000
  - id: small
    use: cut
    from: baseline
  - id: student
    use: cut
    from: small
    teacher: baseline
  - id: files
    use: pack
    from: [baseline, student]
    format: [onnx, tflite]
    precision: [fp32, int8]
"""
STEPS = 5
RESULTS = 11
PROOF = """\
  - id: proof
    use: weigh
    from: files
gates:
  - {of: student/tflite-fp32, quality: {metric: accuracy, min: 90%}}
"""


@dataclass
class Project:
    """A folder with data, a recipe and a store. `ran` tells what was computed, by stage."""

    path: Path
    text: str = RECIPE
    name: str = "recipe.yaml"
    events: list[Event] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return Store(self.path / "store")

    @property
    def recipe(self) -> Path:
        path = self.path / self.name
        if not path.is_file() or path.read_text() != self.text:  # processes that run it together must not empty it
            path.write_text(self.text)
        return path

    @property
    def data(self) -> Path:
        return self.path / "data"

    def run(self, *overrides: str, **options: Any) -> RunResult:
        self.events.clear()
        options = {"store": self.store.path, "runs": self.path / "runs", "device": "cpu", **options}
        return run(
            self.recipe,
            overrides,
            registry=registry(),
            environment={"DATA": str(self.data)},
            listener=self.events.append,
            **options,
        )

    def plan(self, *overrides: str) -> Plan:
        environment = {"DATA": str(self.data)}
        return plan(self.recipe, overrides, store=self.store.path, registry=registry(), environment=environment)

    def replaced(self, old: str, new: str) -> Project:
        assert old in self.text
        self.text = self.text.replace(old, new)
        return self

    @property
    def ran(self) -> Counter[str]:
        path = Path(os.environ["FAKE_LOG"])
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.split()[0] for line in lines)

    def forget(self) -> None:
        """Empties the log of what was computed."""
        Path(os.environ["FAKE_LOG"]).unlink(missing_ok=True)


def report(result: RunResult) -> dict[str, Any]:
    return json.loads((result.directory / "report.json").read_text())


def digests(directory: Path) -> dict[str, str]:
    """Digests of all variants of a run but proofs, which hold measured times."""
    lock = json.loads((directory / "lock.json").read_text())
    return {
        name: digest for stage in lock["stages"] if stage["use"] != "weigh" for name, digest in stage["results"].items()
    }


def kinds(directory: Path) -> list[str]:
    return [event["event"] for event in read_events(directory / "events.jsonl")]


def in_children(count: int, work: Callable[[int], int]) -> list[int]:
    """Calls `work(index)` in that many forked processes at once; the exit statuses, negative for a signal."""
    return [wait(pid) for pid in [fork(lambda index=index: work(index)) for index in range(count)]]


def fork(work: Callable[[], int]) -> int:
    """Starts a process that does `work` and exits with what it returns. Quicker than a new interpreter."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def names(stages: Sequence[dict[str, Any]]) -> list[str]:
    return [stage["id"] for stage in stages]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "ran.log"))
    monkeypatch.delenv("FAKE_FAIL", raising=False)
    # Fake stages leave nothing to free, and collecting garbage takes long in a process that has loaded torch.
    monkeypatch.setattr("compress.pipeline.runner.free_memory", lambda: None)
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (data / "calibration.bin").write_bytes(b"abc")
    (data / "train.bin").write_bytes(b"defg")
    return Project(tmp_path)


@pytest.fixture
def measured(project: Project) -> Project:
    """The same recipe with a measuring stage and a gate behind it."""
    project.text += PROOF
    return project
