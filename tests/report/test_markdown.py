from __future__ import annotations

from pathlib import Path

from compress.errors import ExitCode
from compress.pipeline.gates import evaluate_gates
from compress.recipe.gates import QualityDrop, SizeReduction
from compress.recipe.schema import GateSpec
from compress.report.build import ReportInputs, build_report
from compress.report.markdown import render_markdown
from compress.report.model import Report
from compress.report.proof import MeasuredProof
from tests.report.made_up import BASELINE, STUDENT, file_variant, make_proof, recipe

GATES = (
    GateSpec(
        "student/tflite-int8",
        {"quality_drop": QualityDrop(metric="accuracy", max=0.001), "size_reduction": SizeReduction(min=0.917)},
    ),
)


def report_of(proof: MeasuredProof, gates: tuple[GateSpec, ...] = ()) -> Report:
    results = evaluate_gates(gates, [proof])
    return build_report(ReportInputs(recipe(gates), ExitCode.OK, {}, [proof], results))


def test_the_first_sentence_is_the_gated_file_against_the_baseline(chain: MeasuredProof) -> None:
    text = render_markdown(report_of(chain, GATES))
    headline = text.split("\n\n")[1]
    assert headline.startswith("**student/tflite-int8 is 14.0 times smaller than baseline/tflite-fp32")
    assert "faster" in headline
    assert "no difference" in headline


def test_without_gates_the_fastest_file_that_keeps_quality_leads(chain: MeasuredProof) -> None:
    assert render_markdown(report_of(chain)).split("\n\n")[1].startswith("**student/tflite-fp32")


def test_it_says_that_int8_lost_where_it_lost(chain: MeasuredProof) -> None:
    text = render_markdown(report_of(chain))
    assert "INT8 lost: baseline/tflite-int8 is" in text
    assert "slower" in text


def test_it_says_no_difference_where_the_intervals_overlap(tmp_path: Path) -> None:
    fp32 = file_variant(tmp_path, BASELINE, "tflite", "fp32", 400)
    int8 = file_variant(tmp_path, BASELINE, "tflite", "int8", 100)
    files = {fp32.name: (fp32, "litert", 5.0, 0.01), int8.name: (int8, "litert", 5.0, 0.01)}
    text = render_markdown(report_of(make_proof(tmp_path, files, fp32.name)))
    assert "no difference in latency" in text
    assert "INT8 gained no speed" in text
    assert "INT8 lost" not in text


def test_a_float_file_that_answers_unlike_its_torch_model_is_called_out(chain: MeasuredProof, tmp_path: Path) -> None:
    """Then it is not INT8 that lost the quality, and INT8 must not look good beside it."""
    assert "Wrong before INT8: pruned/tflite-fp32 loses against its torch model" in render_markdown(report_of(chain))
    fp32 = file_variant(tmp_path, BASELINE, "tflite", "fp32", 400)
    good = make_proof(tmp_path, {fp32.name: (fp32, "litert", 5.0, 0.0)}, fp32.name)
    assert "Wrong before INT8" not in render_markdown(report_of(good))


def test_a_gate_finer_than_the_interval_is_shown_as_unresolved(chain: MeasuredProof) -> None:
    text = render_markdown(report_of(chain, GATES))
    row = next(line for line in text.splitlines() if "quality_drop" in line and line.startswith("|"))
    assert "failed" in row
    assert "unresolved" in row


def test_the_class_that_lost_most_is_named(chain: MeasuredProof) -> None:
    text = render_markdown(report_of(chain))
    row = next(line for line in text.splitlines() if line.startswith("| pruned/tflite-int8 | 100.00 %"))
    assert "−2.00" in row


def test_the_fastest_engines_float_is_named_where_it_is_another(tmp_path: Path) -> None:
    fp32 = file_variant(tmp_path, STUDENT, "onnx", "fp32", 400)
    int8 = file_variant(tmp_path, STUDENT, "onnx", "int8", 100)
    files = {
        fp32.name: (fp32, "onnxruntime", 10.0, 0.0),
        f"{fp32.name}@openvino": (fp32, "openvino", 4.0, 0.0),
        int8.name: (int8, "onnxruntime", 6.0, 0.0),
    }
    text = render_markdown(report_of(make_proof(tmp_path, files, fp32.name)))
    assert "against the fastest fp32 of its model, student/onnx-fp32@openvino on openvino:" in text


def test_every_table_has_as_many_cells_in_each_row_as_in_its_header(chain: MeasuredProof) -> None:
    for block in render_markdown(report_of(chain, GATES)).split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("| "):
            assert len({line.count("|") for line in lines}) == 1
