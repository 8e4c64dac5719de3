from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.made_up import BASELINE, chain_proof, file_variant, make_proof


def test_the_waterfall_goes_from_torch_over_the_float_file_to_this_file(tmp_path: Path) -> None:
    waterfall = chain_proof(tmp_path)["pruned/tflite-int8"].waterfall
    assert waterfall.torch == 1.0
    assert waterfall.float_file == pytest.approx(0.97)
    assert waterfall.file == pytest.approx(0.9675)


def test_the_quality_of_a_file_is_its_own_and_never_the_torch_models(tmp_path: Path) -> None:
    proof = chain_proof(tmp_path)
    assert proof.measurements.torch["pruned"]["accuracy"] == 1.0
    assert proof["pruned/tflite-int8"].quality["accuracy"] == pytest.approx(0.9675)


def test_what_is_lost_between_torch_and_file_is_paired_and_judged(tmp_path: Path) -> None:
    change = chain_proof(tmp_path)["pruned/tflite-int8"].relative_to_torch
    assert change is not None
    assert change.quality == pytest.approx(-0.0325)
    assert change.quality_interval[1] < 0
    assert change.quality_change == "worse"


def test_every_file_is_compared_with_the_baseline_and_with_its_own_float(tmp_path: Path) -> None:
    proof = chain_proof(tmp_path)
    baseline, int8 = proof["baseline/tflite-fp32"], proof["student/tflite-int8"]
    assert baseline.relative is None
    assert baseline.relative_to_float is None
    assert int8.relative is not None
    assert int8.relative.of == "baseline/tflite-fp32"
    assert int8.relative_to_float is not None
    assert int8.relative_to_float.of == "student/tflite-fp32"
    assert int8.relative_to_float.latency_change == "worse"


def test_the_fastest_engines_float_stands_beside_the_own_engines(tmp_path: Path) -> None:
    """INT8 on one engine may beat that engine's fp32 and still lose to another engine's."""
    fp32 = file_variant(tmp_path, BASELINE, "onnx", "fp32", 400)
    int8 = file_variant(tmp_path, BASELINE, "onnx", "int8", 100)
    files = {
        fp32.name: (fp32, "onnxruntime", 10.0, 0.0),
        f"{fp32.name}@openvino": (fp32, "openvino", 4.0, 0.0),
        int8.name: (int8, "onnxruntime", 6.0, 0.0),
    }
    measured = make_proof(tmp_path, files, fp32.name)[int8.name]
    assert measured.relative_to_float is not None
    assert measured.relative_to_float.latency_change == "better"
    assert measured.relative_to_fastest_float is not None
    assert measured.relative_to_fastest_float.of == f"{fp32.name}@openvino"
    assert measured.relative_to_fastest_float.latency_change == "worse"


def test_the_median_lies_in_its_interval_and_p99_needs_many_runs(tmp_path: Path) -> None:
    latency = chain_proof(tmp_path)["student/tflite-int8"].latency_ms
    assert latency is not None
    assert latency.median_interval[0] <= latency.median <= latency.median_interval[1]
    assert latency.median <= latency.p90 <= latency.p95
    assert latency.p99 is None
    assert latency.runs < 500


def test_quality_by_class_names_the_labels(tmp_path: Path) -> None:
    by_class = chain_proof(tmp_path)["pruned/tflite-int8"].per_class["accuracy"]
    assert set(by_class) == {"circle", "square", "star", "cross"}
    assert sum(by_class.values()) / 4 == pytest.approx(0.9675)
