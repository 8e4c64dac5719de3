"""The command line, as a user sees it: output, messages, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.__main__ import main
from tests.edge_runtime.model_files import Quantized, expected, write_onnx, write_tflite

IMAGE = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(write_tflite(tmp_path / "model.tflite"))


@pytest.fixture
def image(tmp_path: Path) -> str:
    np.save(tmp_path / "image.npy", IMAGE)
    return str(tmp_path / "image.npy")


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return code, captured.err.strip().splitlines()[-1]


def test_run_prints_labels_with_probabilities(capsys: pytest.CaptureFixture[str], model: str, image: str) -> None:
    answer = document(capsys, "run", model, image)
    logits = expected((IMAGE / 255 - 0.5) / 0.5)[0]
    probabilities = np.exp(logits) / np.exp(logits).sum()
    order = np.argsort(-probabilities)
    (result,) = answer["results"]
    assert [entry["label"] for entry in result["labels"]] == [("cat", "dog", "owl")[index] for index in order]
    np.testing.assert_allclose([entry["probability"] for entry in result["labels"]], probabilities[order], rtol=1e-4)
    assert (answer["engine"], answer["delegate"], answer["threads"]) == ("litert", "xnnpack", 1)

    assert main(["run", model, image, "--top", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    best = result["labels"][0]
    assert lines == [image, f"  {best['probability']:6.1%}  {best['label']}"]


def test_run_takes_image_files_and_float_arrays(
    capsys: pytest.CaptureFixture[str], model: str, image: str, tmp_path: Path
) -> None:
    image_module = pytest.importorskip("PIL.Image")
    image_module.fromarray(IMAGE).save(tmp_path / "image.png")
    values = ((IMAGE / 255 - 0.5) / 0.5).astype(np.float32)[None]
    np.save(tmp_path / "values.npy", values)
    answer = document(capsys, "run", model, image, str(tmp_path / "image.png"), str(tmp_path / "values.npy"))
    first, *others = (result["labels"] for result in answer["results"])
    assert all(other == first for other in others)


def test_inspect_shows_the_interface_the_scales_and_the_contract(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(write_tflite(tmp_path / "model.tflite", Quantized()))
    answer = document(capsys, "inspect", path)
    assert answer["inputs"] == [
        {"name": "args_0", "shape": [1, 4, 4, 3], "dtype": "int8", "scale": 1 / 64, "zero_point": 3}
    ]
    assert answer["outputs"][0]["zero_point"] == -5
    assert answer["contract"]["labels"] == ["cat", "dog", "owl"]
    assert answer["bytes"] == Path(path).stat().st_size
    assert main(["inspect", path]) == 0
    text = capsys.readouterr().out
    for words in (
        "delegate xnnpack",
        "int8 [1, 4, 4, 3], scale 0.015625, zero point 3",
        "cat, dog, owl",
        "resize stretch",
    ):
        assert words in text


def test_inspect_works_without_a_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_tflite(tmp_path / "model.tflite", with_contract=False)
    assert document(capsys, "inspect", str(path))["contract"] is None
    assert main(["inspect", str(path)]) == 0
    assert f"none at {tmp_path / 'model.contract.json'}" in capsys.readouterr().out


def test_inspect_fails_when_file_and_contract_disagree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_tflite(tmp_path / "model.tflite")
    write_tflite(path, Quantized(), with_contract=False)
    assert main(["inspect", str(path)]) == 3
    assert "is float32 in the contract, int8 in the file" in capsys.readouterr().err


def test_benchmark_times_files_against_the_first(
    capsys: pytest.CaptureFixture[str], model: str, tmp_path: Path
) -> None:
    other = str(write_tflite(tmp_path / "int8.tflite", Quantized()))
    answer = document(capsys, "benchmark", model, other, "--seconds", "0.5", "--memory")
    assert list(answer["models"]) == [model, other]
    assert answer["baseline"] == model
    for row in answer["models"].values():
        assert 0 < row["latency_ms"]["median"] <= row["latency_ms"]["p90"]
        assert row["latency_ms"]["runs"] >= 6
        assert row["peak_memory_bytes"] > 10 * 2**20
    low, high = answer["models"][other]["ratio_interval"]
    assert low <= answer["models"][other]["ratio"] <= high
    assert main(["benchmark", model, other, "--seconds", "0.2"]) == 0
    header, first, second, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["model", "engine", "delegate"]
    assert first.startswith(model)
    assert first.endswith("baseline")
    assert second.startswith(other)
    assert second.endswith(("faster", "slower", "no difference"))


def test_benchmark_compares_engines_on_one_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = str(write_onnx(tmp_path / "model.onnx"))
    engines = ("--engine", "onnxruntime", "--engine", "openvino")
    answer = document(capsys, "benchmark", path, *engines, "--seconds", "0.2", "--baseline", f"{path} (openvino)")
    assert list(answer["models"]) == [f"{path} (onnxruntime)", f"{path} (openvino)"]
    assert answer["baseline"] == f"{path} (openvino)"


def test_memory_measures_this_process(capsys: pytest.CaptureFixture[str], model: str) -> None:
    answer = document(capsys, "memory", model)
    assert answer["peak_memory_bytes"] >= answer["before_model_bytes"] > 0
    assert main(["memory", model]) == 0
    assert "MB at the peak" in capsys.readouterr().out


def test_usage_errors_end_with_2(capsys: pytest.CaptureFixture[str], model: str, image: str, tmp_path: Path) -> None:
    (tmp_path / "damaged.png").write_bytes(b"no image")
    for arguments, words in [
        (("run", model), "required: input"),
        (("run", str(tmp_path / "none.tflite"), image), "no model file at"),
        (("run", model, str(tmp_path / "none.npy")), "no file at"),
        (("run", model, str(tmp_path / "damaged.png")), "damaged or not an image"),
        (("run", model, image, "--engine", "onnxruntim"), "did you mean 'onnxruntime'?"),
        (("run", model, image, "--threads", "0"), "whole number of at least 1, got '0'"),
        (("run", model, image, "--top", "many"), "whole number of at least 1, got 'many'"),
        (("benchmark", model, "--seconds", "-1"), "number of seconds above 0, got '-1'"),
        (("benchmark", model, "--baseline", "modle"), "is not among the models measured"),
        (("benchmark", model, model), "is given twice"),
        (("benchmark", model, "--engine", "openvino"), "none of the engines openvino runs"),
        (("bench", model), "invalid choice: 'bench'"),
    ]:
        code, message = failure(capsys, *arguments)
        assert (code, words in message) == (2, True), f"{arguments}: {code}, {message}"


def test_refused_models_and_data_end_with_3(capsys: pytest.CaptureFixture[str], image: str, tmp_path: Path) -> None:
    good = write_tflite(tmp_path / "good.tflite")
    truncated = write_tflite(tmp_path / "truncated.tflite")
    truncated.write_bytes(truncated.read_bytes()[:300])
    zero = write_tflite(tmp_path / "zero.tflite", Quantized(output_scale=0.0))
    bare = write_tflite(tmp_path / "bare.tflite", with_contract=False)
    np.save(tmp_path / "wrong.npy", np.zeros((1, 3, 4, 4), np.float32))
    np.save(tmp_path / "nan.npy", np.full((1, 4, 4, 3), np.nan, np.float32))
    for arguments, words in [
        (("run", str(truncated), image), "damaged or not a TFLite model"),
        (("inspect", str(zero)), "scale 0.0; a scale has to be a finite number above 0"),
        (("run", str(bare), image), "no contract at"),
        (("run", str(good), str(tmp_path / "wrong.npy")), "this looks like NCHW"),
        (("run", str(good), str(tmp_path / "nan.npy")), "NaN or infinite"),
    ]:
        code, message = failure(capsys, *arguments)
        assert (code, words in message) == (3, True), f"{arguments}: {code}, {message}"
        assert message.startswith("error: ")


def test_a_missing_engine_ends_with_5(
    capsys: pytest.CaptureFixture[str], model: str, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runtime.engines.is_installed", lambda spec: False)
    code, message = failure(capsys, "run", model, image)
    assert code == 5
    assert "pip install edgepress[litert]" in message


def test_an_unexpected_error_is_one_line_and_a_traceback_with_debug(
    capsys: pytest.CaptureFixture[str], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("edge_runtime.engines.open_engine", fail)
    code, message = failure(capsys, "inspect", model)
    assert (code, message) == (3, "error: ZeroDivisionError: a mistake of ours (--debug shows the traceback)")
    with pytest.raises(ZeroDivisionError):
        main(["inspect", model, "--debug"])


def test_an_interrupt_ends_with_130(
    capsys: pytest.CaptureFixture[str], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edge_runtime.engines.open_engine", interrupt)
    assert failure(capsys, "inspect", model) == (130, "interrupted")


def test_a_reader_that_goes_away_is_no_error(model: str) -> None:
    command = f"{sys.executable} -m edge_runtime inspect {model} --json | true"
    child = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert "Traceback" not in child.stderr
    assert "Exception ignored" not in child.stderr
