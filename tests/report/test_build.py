from __future__ import annotations

import json
from pathlib import Path

import pytest

from compress.errors import ExitCode, RecipeError
from compress.report.build import ReportInputs, build_report, write_report
from compress.report.model import StageRecord
from compress.report.proof import MeasuredProof
from compress.report.terminal import load_report
from tests.report.made_up import BASELINE, chain_proof, recipe


def test_a_run_that_failed_before_it_measured_still_has_a_report(tmp_path: Path) -> None:
    failed = StageRecord(id="pruned", use="prune", results=("pruned",), error="layer conv1 cannot be cut")
    report = build_report(
        ReportInputs(
            recipe(), ExitCode.STAGE_FAILED, {"baseline": BASELINE}, stages=[failed], error="pruned: layer conv1 ..."
        )
    )
    write_report(report, tmp_path)
    assert report.status == "stage failed"
    assert report.torch_variants["baseline"].parameters == BASELINE.parameters
    text = (tmp_path / "report.md").read_text()
    assert "a stage failed" in text.splitlines()[0]
    assert "layer conv1" in text
    assert {verdict.verdict for verdict in report.reference} == {"not measured"}


def test_verdicts_never_change_the_exit_code(chain: MeasuredProof) -> None:
    report = build_report(ReportInputs(recipe(), ExitCode.OK, {}, [chain]))
    assert any(verdict.verdict == "falls short" for verdict in report.reference)
    assert (report.status, report.exit_code) == ("passed", 0)


def test_without_a_reference_in_the_recipe_nothing_is_claimed(chain: MeasuredProof) -> None:
    assert build_report(ReportInputs(recipe(reference=None), ExitCode.OK, {}, [chain])).reference == ()


def test_an_unknown_reference_is_an_error(chain: MeasuredProof) -> None:
    with pytest.raises(RecipeError, match="compression-table"):
        build_report(ReportInputs(recipe(reference="compresion-table"), ExitCode.OK, {}, [chain]))


def test_paths_are_those_of_the_runs_folder(chain: MeasuredProof) -> None:
    paths = {"student/tflite-int8": "variants/student/tflite-int8/model.tflite"}
    report = build_report(ReportInputs(recipe(), ExitCode.OK, {}, [chain], paths=paths))
    assert report.variants["student/tflite-int8"].path == paths["student/tflite-int8"]


def test_a_file_that_two_benchmarks_measured_stands_in_both(chain: MeasuredProof, tmp_path: Path) -> None:
    second = chain_proof(tmp_path, name="again")
    report = build_report(ReportInputs(recipe(), ExitCode.OK, {}, [chain, second]))
    assert {"student/tflite-int8", "student/tflite-int8 (again)"} <= set(report.variants)


def test_what_is_written_reads_back_and_is_complete(chain: MeasuredProof, tmp_path: Path) -> None:
    report = build_report(ReportInputs(recipe(), ExitCode.OK, {}, [chain], environment={"python": "3.11"}))
    write_report(report, tmp_path)
    assert load_report(tmp_path) == report
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json", "report.md"]
