"""The reader of ONNX metadata, against what the onnx package writes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")

from edge_runtime.engines.onnx_file import QUANTIZATION_KEY, quantized, read_metadata
from edge_runtime.engines.protocol import TensorInfo
from edge_runtime.errors import ModelFileError
from tests.edge_runtime.model_files import Quantized, write_onnx

INT8 = (TensorInfo("x", (1,), "int8"),)
FLOAT = (TensorInfo("y", (1,), "float32"),)


def test_metadata_is_what_the_onnx_package_reads(tmp_path: Path) -> None:
    import onnx

    path = write_onnx(tmp_path / "model.onnx", Quantized(), metadata={"inputs": {"x": {"scale": 0.1, "zero_point": 0}}})
    written = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert read_metadata(path) == written
    assert written["author"] == "tests"


def test_a_file_without_metadata_gives_none(tmp_path: Path) -> None:
    assert read_metadata(write_onnx(tmp_path / "model.onnx")) == {}


def test_long_values_and_other_alphabets_are_read(tmp_path: Path) -> None:
    import onnx

    path = write_onnx(tmp_path / "model.onnx")
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"größe": "é" * 20_000})
    onnx.save(model, path)
    assert read_metadata(path) == {"größe": "é" * 20_000}


def test_no_prefix_of_a_file_is_taken_for_a_model(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", Quantized())
    whole = path.read_bytes()
    metadata = read_metadata(path)
    for length in range(1, len(whole), 3):
        path.write_bytes(whole[:length])
        try:
            read = read_metadata(path)
        except ModelFileError:
            continue
        # A cut between two fields leaves a smaller model, but never another description of it.
        assert read.items() < metadata.items()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "malformed"),
        ("[]", "expected an object with `inputs` and `outputs`"),
        ('{"input": {}}', "expected an object with `inputs` and `outputs`"),
        ('{"inputs": {"z": {"scale": 1, "zero_point": 0}}}', "'z' is not an int8 or uint8 tensor"),
        ('{"outputs": {"y": {"scale": 1, "zero_point": 0}}}', "'y' is not an int8 or uint8 tensor"),
        ('{"inputs": {"x": {"scale": 1}}}', "zero_point"),
        ('{"inputs": {"x": 1}}', "malformed"),
        ('{"inputs": {"x": {"scale": "a", "zero_point": 0}}}', "malformed"),
        ('{"inputs": {"x": {"scale": 0, "zero_point": 0}}}', "with scale 0.0"),
    ],
)
def test_a_malformed_description_is_refused(text: str, words: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        quantized(Path("m.onnx"), {QUANTIZATION_KEY: text}, INT8, FLOAT)
    assert words in str(caught.value)


def test_a_description_is_laid_on_the_tensors_that_it_names() -> None:
    text = '{"inputs": {"x": {"scale": 0.5, "zero_point": -3}}}'
    inputs, outputs = quantized(Path("m.onnx"), {QUANTIZATION_KEY: text}, INT8, FLOAT)
    assert inputs == (TensorInfo("x", (1,), "int8", 0.5, -3),)
    assert outputs == FLOAT
