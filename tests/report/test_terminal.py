from __future__ import annotations

from pathlib import Path

import pytest

from compress.errors import ExitCode, RecipeError
from compress.pipeline.gates import evaluate_gates
from compress.recipe.gates import Size, SizeReduction
from compress.recipe.schema import GateSpec
from compress.report.build import ReportInputs, build_report
from compress.report.proof import MeasuredProof
from compress.report.terminal import load_report, render_summary
from tests.report.made_up import recipe


def test_the_status_is_the_last_line_and_failed_gates_say_why(chain: MeasuredProof) -> None:
    gates = (
        GateSpec("student/tflite-int8", {"size_reduction": SizeReduction(min=0.9)}),
        GateSpec("student/tflite-fp16", {"size": Size(max=4096)}),
    )
    results = evaluate_gates(gates, [chain])
    report = build_report(ReportInputs(recipe(gates), ExitCode.GATE_FAILED, {}, [chain], results))
    lines = render_summary(report).splitlines()
    assert lines[-1] == "chain: gate failed"
    assert any(line.startswith("gate student/tflite-int8 size_reduction") and line.endswith("passed") for line in lines)
    assert any("student/tflite-fp16 was not measured" in line and "FAILED" in line for line in lines)


def test_the_cause_of_a_failed_stage_is_the_last_line() -> None:
    inputs = ReportInputs(recipe(), ExitCode.STAGE_FAILED, {}, error="files: operator aten.foo has no counterpart")
    assert render_summary(build_report(inputs)).splitlines()[-1].endswith("operator aten.foo has no counterpart")


@pytest.mark.parametrize("content", [None, "{", '{"schema": 2}'])
def test_a_folder_without_a_readable_report_is_refused_by_its_path(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    with pytest.raises(RecipeError, match=str(tmp_path)):
        load_report(tmp_path)
