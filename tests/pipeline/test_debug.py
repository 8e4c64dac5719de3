"""Which files the debugger compares, and what it says when they are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from compress.__main__ import main
from compress.errors import RecipeError
from compress.pipeline.debug import find_files


def run_folder(root: Path, *names: str) -> Path:
    for name in names:
        format_, _, precision = name.rpartition("/")[2].partition("-")
        path = root / "variants" / name / f"model-{precision}.{format_}"
        path.parent.mkdir(parents=True)
        path.touch()
    return root


def test_a_file_is_compared_with_the_float_file_of_its_network_and_format(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "a/onnx-fp32", "a/tflite-fp32", "a/tflite-int8", "b/tflite-fp32", "b/tflite-int8")
    int8, reference = find_files(run, "b/tflite-int8")
    assert (int8.parent.name, reference.parent.name) == ("tflite-int8", "tflite-fp32")
    assert int8.parent.parent.name == reference.parent.parent.name == "b"


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("a/tflite-int", "has no int8 file 'a/tflite-int'; did you mean 'a/tflite-int8'?"),
        ("a/tflite-fp32", "has no int8 file 'a/tflite-fp32'"),
        ("a/onnx-int8", "has no fp32 file of a as onnx to compare with: add fp32 to `precision`"),
    ],
)
def test_a_wrong_variant_is_answered_with_what_is_missing(tmp_path: Path, variant: str, message: str) -> None:
    run = run_folder(tmp_path, "a/tflite-fp32", "a/tflite-int8", "a/onnx-int8")
    with pytest.raises(RecipeError) as caught:
        find_files(run, variant)
    assert message in str(caught.value)


def test_a_folder_without_a_run_and_a_bad_number_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["debug", str(tmp_path), "a/onnx-int8"]) == 2
    assert "expected a run's folder" in capsys.readouterr().err
    assert main(["debug", str(tmp_path), "a/onnx-int8", "--samples", "0"]) == 2
    assert "--samples: expected a number of at least 1, got 0" in capsys.readouterr().err
