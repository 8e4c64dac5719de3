"""Runs of a recipe of fake stages: what is computed, what is served, how a run ends."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import yaml

from compress.errors import EnvironmentProblem, ExitCode, RecipeError
from compress.pipeline.events import read_events
from tests.pipeline.conftest import RESULTS, STEPS, Project, digests, fork, in_children, report, wait


def test_a_first_run_computes_every_stage_and_passes(measured: Project) -> None:
    result = measured.run()
    assert (result.exit_code, result.computed, result.reused) == (ExitCode.OK, STEPS + 1, 0)
    assert measured.ran == {"prepare": 1, "baseline": 1, "small": 1, "student": 1, "files": 2, "proof": 1}
    assert report(result)["status"] == "passed"
    assert [gate["passed"] for gate in report(result)["gates"]] == [True]
    lines = result.message.splitlines()
    assert any(line.startswith("gate student/tflite-fp32 quality") and "passed" in line for line in lines)
    assert lines[-1] == f"report: {result.directory / 'report.md'}"


def test_a_second_run_does_nothing_and_says_so(measured: Project) -> None:
    first = measured.run()
    measured.forget()
    second = measured.run()
    assert measured.ran == {"prepare": 1}
    assert (second.exit_code, second.computed, second.reused) == (ExitCode.OK, 0, STEPS + 1)
    assert f"nothing to do: {RESULTS + 1} of {RESULTS + 1} results from the store" in second.message.splitlines()
    assert digests(second.directory) == digests(first.directory)
    assert report(second)["variants"].keys() == report(first)["variants"].keys()


def test_the_run_folder_holds_the_recipe_the_lock_the_events_the_report_and_the_variants(project: Project) -> None:
    directory = project.run("stages.baseline.size=3000").directory
    assert {path.name for path in directory.iterdir()} == {
        *("recipe.yaml", "recipe.original.yaml", "lock.json", "events.jsonl"),
        *("report.json", "report.md", "report.html", "variants"),
    }
    assert (directory / "recipe.original.yaml").read_text() == project.text
    assert yaml.safe_load((directory / "recipe.yaml").read_text())["stages"][0]["size"] == 3000
    assert len((directory / "variants/baseline/weights.safetensors").read_bytes()) == 3000
    tflite = directory / "variants/student/tflite-int8"
    assert sorted(path.name for path in tflite.iterdir()) == ["model-int8.contract.json", "model-int8.tflite"]


def test_variants_in_the_run_folder_are_hard_links_into_the_store(project: Project) -> None:
    directory = project.run().directory
    linked = (directory / "variants/baseline/weights.safetensors").stat()
    assert linked.st_nlink == 3  # the blob, the output of the result, the run folder
    assert linked.st_mode & 0o222 == 0


def test_the_report_says_where_in_the_run_folder_each_file_is(measured: Project) -> None:
    result = measured.run()
    for name, entry in report(result)["variants"].items():
        assert entry["path"].startswith(f"variants/{name}/")
        assert (result.directory / entry["path"]).is_file()


def test_the_recipe_as_run_can_be_run_again_and_finds_everything_stored(project: Project) -> None:
    first = project.run("stages.small.keep=0.25")
    project.text = (first.directory / "recipe.yaml").read_text()
    assert project.run().computed == 0


def test_a_failed_gate_ends_with_its_own_exit_code_and_names_the_gate(measured: Project) -> None:
    result = measured.replaced("min: 90%", "min: 99.5%").run()
    assert result.exit_code is ExitCode.GATE_FAILED
    assert result.computed == STEPS + 1
    assert "1 of 1 gates failed" in result.message
    assert result.message.splitlines()[-1].strip().startswith("student/tflite-fp32 quality:")
    assert report(result)["status"] == "gate failed"


def test_a_failed_gate_fails_again_when_everything_comes_from_the_store(measured: Project) -> None:
    measured.replaced("min: 90%", "min: 99.5%").run()
    again = measured.run()
    assert again.exit_code is ExitCode.GATE_FAILED
    assert "nothing to do" in again.message


def test_a_failed_stage_is_named_with_its_cause_last_and_what_exists_is_reported(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAIL", "student:stage")
    result = project.run()
    assert result.exit_code is ExitCode.STAGE_FAILED
    assert result.message.splitlines()[-1] == (
        "stage 'student' (cut of small) failed: the loss is not finite at step 3"
    )
    written = report(result)
    assert written["status"] == "stage failed"
    assert written["error"] == result.message
    assert set(written["torch_variants"]) == {"baseline", "small"}
    assert [(stage["id"], stage["error"] is None) for stage in written["stages"]] == [
        *(("baseline", True), ("small", True), ("student", False))
    ]
    assert digests(result.directory).keys() == {"baseline", "small"}


def test_the_gates_of_a_failed_run_have_failed(measured: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "student:stage")
    result = measured.run()
    assert result.exit_code is ExitCode.STAGE_FAILED
    (gate,) = report(result)["gates"]
    assert not gate["passed"]
    assert "nothing was measured" in gate["reason"]


def test_a_rerun_continues_at_the_failed_stage(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "student:stage")
    project.run()
    monkeypatch.delenv("FAKE_FAIL")
    project.forget()
    result = project.run()
    assert result.exit_code is ExitCode.OK
    assert project.ran == {"prepare": 1, "student": 1, "files": 2}


def test_a_failure_is_recorded_and_never_served(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "baseline:bug")
    project.run()
    (recorded,) = (project.store.path / "failures").iterdir()
    assert "layer9" in json.loads(recorded.read_text())["traceback"]
    assert project.store.stored_keys() == ()
    monkeypatch.delenv("FAKE_FAIL")
    assert project.run().exit_code is ExitCode.OK
    assert list((project.store.path / "failures").iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "code", "cause"),
    [
        ("stage", ExitCode.STAGE_FAILED, "failed: the loss is not finite at step 3"),
        ("bug", ExitCode.STAGE_FAILED, "failed: KeyError: 'layer9'"),
        ("memory", ExitCode.STAGE_FAILED, "failed: out of memory"),
        ("environment", ExitCode.ENVIRONMENT, "failed: onnx 0.1 clashes with protobuf 9"),
        ("missing", ExitCode.ENVIRONMENT, "failed: the package 'litert_torch' is not installed"),
        ("full", ExitCode.ENVIRONMENT, "no space left on device while stage 'small' (cut of baseline)"),
    ],
)
def test_every_kind_of_failure_has_its_exit_code_and_its_cause(
    project: Project, monkeypatch: pytest.MonkeyPatch, kind: str, code: ExitCode, cause: str
) -> None:
    monkeypatch.setenv("FAKE_FAIL", f"small:{kind}")
    result = project.run()
    assert result.exit_code is code
    assert cause in result.message.splitlines()[-1]
    assert report(result)["exit_code"] == code


def test_a_failure_keeps_its_traceback_in_the_events(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "small:bug")
    result = project.run()
    (failed,) = [event for event in read_events(result.directory / "events.jsonl") if event["event"] == "stage-failed"]
    assert "Traceback" in failed["traceback"]
    assert "fakes.py" in failed["traceback"]


def test_an_interrupted_run_says_that_it_can_be_resumed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "student:interrupt")
    result = project.run()
    assert result.exit_code is ExitCode.INTERRUPTED
    assert "the same command continues" in result.message
    assert report(result)["status"] == "interrupted"


def test_sigterm_ends_a_run_like_an_interrupt_and_the_rerun_goes_on_from_the_last_step(project: Project) -> None:
    project.run()
    undisturbed = digests(next((project.path / "runs/chain").iterdir()))
    project.forget()
    slow = {"store": project.path / "other", "runs": project.path / "others"}
    pid = fork(lambda: int(project.run("stages.small.steps=40", "stages.small.pause=0.05", **slow).exit_code))
    _wait_for(lambda: any((project.path / "other/work").glob("*/state/state.json")) and project.ran["small"] == 1)
    time.sleep(0.3)
    os.kill(pid, signal.SIGTERM)
    assert wait(pid) == ExitCode.INTERRUPTED
    assert project.run("stages.small.steps=40", "stages.small.pause=0.05", **slow).exit_code is ExitCode.OK
    (started,) = [event for event in project.events if event.kind == "stage-started" and event.stage == "small"]
    assert "continued from an earlier attempt" in started.message
    first = next(event for event in project.events if event.kind == "stage-progress" and event.stage == "small")
    assert first.fields["fraction"] > 1 / 40
    assert digests(project.run().directory) == undisturbed


def test_two_runs_that_start_together_get_folders_of_their_own(project: Project) -> None:
    results = in_children(4, lambda index: int(project.run().exit_code))
    folders = list((project.path / "runs/chain").iterdir())
    assert results == [0, 0, 0, 0]
    assert len(folders) == 4
    assert all((folder / "report.json").is_file() for folder in folders)


def test_a_run_folder_in_use_is_refused(project: Project) -> None:
    folder = project.path / "mine"
    pid = fork(lambda: int(project.run("stages.baseline.pause=0.4", directory=folder).exit_code))
    _wait_for(lambda: (folder / ".running").exists() and (folder / "events.jsonl").exists())
    with pytest.raises(RecipeError, match=r"mine is in use by another run; wait for it, or name another folder"):
        project.run(directory=folder)
    assert wait(pid) == 0


def test_a_run_folder_that_holds_a_run_is_refused(project: Project) -> None:
    project.run(directory=project.path / "mine")
    with pytest.raises(RecipeError, match=r"mine already holds a run; name one that is empty"):
        project.run(directory=project.path / "mine")
    (project.path / "notes").mkdir()
    (project.path / "notes/todo.txt").write_text("x")
    with pytest.raises(RecipeError, match=r"notes is not empty \(it holds todo.txt\)"):
        project.run(directory=project.path / "notes")
    with pytest.raises(RecipeError, match="is a file"):
        project.run(directory=project.path / "notes/todo.txt")


def test_a_wrong_recipe_is_refused_before_a_folder_is_made(project: Project) -> None:
    project.replaced("size: 2000", "sizes: 2000")
    with pytest.raises(RecipeError, match="size"):
        project.run()
    assert not (project.path / "runs").exists()
    assert not project.store.path.exists()


def test_an_unknown_device_is_refused(project: Project) -> None:
    with pytest.raises(RecipeError, match="unknown device 'tpu'; expected auto, cpu, cuda or cuda:N"):
        project.run(device="tpu")


def test_a_store_that_cannot_be_made_is_an_environment_problem_that_names_the_variable(project: Project) -> None:
    (project.path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match=r"the store .*file/store cannot be used: .*EDGEPRESS_STORE"):
        project.run(store=project.path / "file/store")
    with pytest.raises(EnvironmentProblem, match="the run folder cannot be made"):
        project.run(runs=project.path / "file")


def test_a_run_folder_that_can_no_longer_be_written_is_an_environment_problem(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> str:
        raise PermissionError(13, "Permission denied", str(project.path))

    monkeypatch.setattr("compress.pipeline.run.link_variant", refuse)
    result = project.run()
    assert result.exit_code is ExitCode.ENVIRONMENT
    assert "linking 'baseline' into the run folder failed" in result.message


def test_a_store_of_another_version_is_refused(project: Project) -> None:
    project.run()
    (project.store.path / "store.json").write_text('{"schema": 99}')
    with pytest.raises(EnvironmentProblem, match="has layout 99, this version uses 1"):
        project.run()


def test_data_that_cannot_be_prepared_fails_the_run_before_any_stage(project: Project) -> None:
    for path in project.data.iterdir():
        path.unlink()
    result = project.run()
    assert result.exit_code is ExitCode.STAGE_FAILED
    assert result.message == f"preparing the data failed: {project.data} is empty"
    assert report(result)["stages"] == []


def test_only_a_measuring_stage_gets_the_test_split(project: Project) -> None:
    written = report(project.run())
    assert written["torch_variants"]["student"]["notes"]["splits"] == ["train", "validation", "calibration"]
    assert written["data"]["splits"]["test"]["count"] == 2


def test_progress_tells_the_time_left_of_the_stage_and_of_the_run(project: Project) -> None:
    project.run("stages.baseline.steps=4", "stages.baseline.pause=0.02")
    told = [event for event in project.events if event.kind == "stage-progress" and event.stage == "baseline"]
    assert told[-1].fields["fraction"] == 1
    assert told[-1].fields["seconds_left"] == 0
    assert told[-1].fields["run_seconds_left"] > 0


def test_the_lock_manifest_holds_versions_seeds_digests_hardware_and_choices(project: Project) -> None:
    lock = json.loads((project.run().directory / "lock.json").read_text())
    assert lock["versions"]["numpy"]
    assert lock["versions"]["python"].startswith("3.")
    assert lock["hardware"]["cores"] == os.cpu_count()
    assert lock["choices"]["device"] == "cpu"
    assert lock["choices"]["target"] in ("x86-avx2", "x86-vnni", "arm-cortex-a53", "arm-cortex-a76")
    assert len({stage["seed"] for stage in lock["stages"]}) == 4  # one for each stage, fan-out shares it
    assert all(len(digest) == 64 for stage in lock["stages"] for digest in stage["results"].values())
    assert len(lock["data_digest"]) == 64


def test_a_stage_that_gives_other_variants_than_planned_fails(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from tests.pipeline.fakes import Cut

    run = Cut.run
    monkeypatch.setattr(Cut, "run", lambda *given: tuple(replace(item, name="other") for item in run(*given)))
    assert "failed: it gave other where small was planned" in project.run().message


def test_a_file_whose_digest_is_not_its_own_fails_the_stage(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from tests.pipeline.fakes import Pack

    run = Pack.run
    monkeypatch.setattr(Pack, "run", lambda *given: tuple(replace(item, digest="0" * 64) for item in run(*given)))
    assert "does not have the digest that the stage gave for it" in project.run().message


def test_what_a_stage_noted_is_the_same_from_the_store_as_fresh(project: Project) -> None:
    first, second = report(project.run()), report(project.run())
    assert first["torch_variants"] == second["torch_variants"]


def test_the_events_of_a_run_are_lines_of_json_in_order(project: Project) -> None:
    events = read_events(project.run().directory / "events.jsonl")
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[1], kinds[-1]) == ("run-started", "data-prepared", "run-finished")
    assert kinds.count("stage-started") == kinds.count("stage-finished") == STEPS
    assert events[-1]["exit_code"] == 0
    assert sorted(event["time"] for event in events) == [event["time"] for event in events]


def _wait_for(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_the_python_api_is_the_same_function(project: Project) -> None:
    import compress
    from compress.pipeline.run import run

    assert compress.run is run
    assert Path(run.__code__.co_filename).name == "run.py"
