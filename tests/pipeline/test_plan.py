"""Plans: what is stored, what will be computed, what it will take, and that planning touches nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compress.pipeline.plan import plan, render_plan
from tests.pipeline.conftest import STEPS, Project
from tests.pipeline.fakes import registry

Snapshot = dict[str, tuple[int, int, bytes]]


def snapshot(folder: Path) -> Snapshot:
    """Every file and folder below, with size, time of change and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path)] = (state.st_size, state.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def states(project: Project, *overrides: str) -> list[str]:
    return [step.state for step in project.plan(*overrides).steps]


def test_before_the_first_run_everything_has_to_be_computed(project: Project) -> None:
    planned = project.plan()
    assert [step.state for step in planned.steps] == ["to compute"] * STEPS
    assert [step.results[0] for step in planned.steps][:3] == ["baseline", "small", "student"]
    assert planned.seconds > 0
    assert planned.disk_bytes > 0


def test_after_a_run_everything_is_stored(project: Project) -> None:
    project.run()
    planned = project.plan()
    assert [step.state for step in planned.steps] == ["stored"] * STEPS
    assert planned.seconds == planned.disk_bytes == 0
    assert "nothing to do" in render_plan(planned)


def test_planning_touches_nothing_before_and_after_a_run(project: Project) -> None:
    assert project.recipe.is_file()
    before = snapshot(project.path)
    environment = {"DATA": str(project.data)}
    plan(project.path / project.name, store=project.store.path, registry=registry(), environment=environment)
    assert snapshot(project.path) == before
    project.run()
    before = snapshot(project.path)
    for overrides in ((), ("stages.small.keep=0.1",)):
        plan(
            project.path / project.name,
            overrides,
            store=project.store.path,
            registry=registry(),
            environment=environment,
        )
    assert snapshot(project.path) == before


def test_a_changed_stage_is_computed_and_what_follows_it_is_unknown(project: Project) -> None:
    project.run()
    assert states(project, "stages.small.keep=0.1") == ["stored", "to compute", "unknown", "stored", "unknown"]
    assert states(project, "stages.student.keep=0.1") == ["stored", "stored", "to compute", "stored", "unknown"]


def test_the_plan_agrees_with_the_run_that_follows(project: Project) -> None:
    project.run()
    planned = project.plan("stages.student.keep=0.1")
    result = project.run("stages.student.keep=0.1")
    stored = sum(step.state == "stored" for step in planned.steps)
    assert (result.computed, result.reused) == (STEPS - stored, stored)


def test_changed_data_is_noticed_without_preparing_it(project: Project) -> None:
    project.run()
    project.forget()
    (project.data / "train.bin").write_bytes(b"other")
    planned = project.plan()
    assert {step.state for step in planned.steps} == {"to compute"}
    assert planned.note == "the data is new here, or has changed"
    assert project.ran == {}


def test_a_result_whose_files_are_gone_is_not_planned_as_stored(project: Project) -> None:
    project.run()
    for blob in project.store.path.glob("blobs/??/*"):
        blob.unlink()
    assert "stored" not in states(project)


def test_the_last_failure_of_a_step_is_shown(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "small:stage")
    project.run()
    monkeypatch.delenv("FAKE_FAIL")
    planned = project.plan()
    assert planned.steps[1].last_failure == "the loss is not finite at step 3"
    assert "failed last time: small: the loss is not finite at step 3" in render_plan(planned)


def test_what_was_measured_here_is_what_is_predicted(project: Project) -> None:
    project.run("stages.baseline.pause=0.2")
    predicted = project.plan("stages.baseline.pause=0.2", "stages.baseline.note=again").steps[0].prediction
    assert predicted is not None
    assert predicted.basis == "measured here"
    assert 0.6 <= predicted.seconds < 6
    assert predicted.disk_bytes >= 2000


def test_the_table_shows_steps_states_times_and_totals(project: Project) -> None:
    text = render_plan(project.plan())
    lines = text.splitlines()
    assert lines[0].split() == ["stage", "technique", "from", "results", "store", "time", "disk"]
    assert lines[2].split()[:2] == ["baseline", "make"]
    assert f"0 of {STEPS} steps are in the store" in text
    assert "predicted: " in text
    assert "rough" in text


def test_planning_imports_no_framework(project: Project) -> None:
    project.run()
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from compress.pipeline.plan import plan\n"
        "from tests.pipeline.fakes import registry\n"
        f"plan({str(project.recipe)!r}, store=Path({str(project.store.path)!r}), registry=registry())\n"
        "print(sorted({'torch', 'numpy', 'onnx', 'tensorflow'} & set(sys.modules)))\n"
    )
    environment = {**os.environ, "DATA": str(project.data), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
