"""The debugger finds the tensor whose scale is bad, in both formats, and counts what it says it counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.debug import diagnose
from export.errors import ConversionError
from export.request import Format
from tests.export.conftest import Converted, make_samples

FORMATS: tuple[Format, ...] = ("onnx", "tflite")


def inputs(format_: Format, count: int = 6):
    for sample in make_samples(count, seed=5):
        array = np.ascontiguousarray(sample[None] if format_ == "onnx" else sample[None].transpose(0, 2, 3, 1))
        yield array, array


@pytest.mark.parametrize("format_", FORMATS)
def test_every_layer_of_a_good_file_is_close_and_the_worst_comes_first(
    converted: dict[Format, Converted], format_: Format
) -> None:
    files = converted[format_]
    found = diagnose(Path(files.file("fp32").path), Path(files.file("int8").path), inputs(format_))
    assert found.samples == 6
    assert [layer.decibel for layer in found.layers] == sorted(layer.decibel for layer in found.layers)
    assert len(found.layers) >= 8
    for layer in found.layers:
        assert layer.decibel > 15, layer
        assert layer.rounding_decibel > 30, layer
        assert layer.cosine > 0.98, layer
        assert layer.clipped < 0.05, layer
        assert layer.covered[0] <= 0 <= layer.covered[1]
    kinds = {layer.operator for layer in found.layers}
    assert {"Conv", "Gemm", "Add", "input"} <= kinds or {"CONV_2D", "FULLY_CONNECTED", "ADD", "input"} <= kinds
    assert found.islands == ()
    assert found.conversions == (20 + 10 if format_ == "onnx" else 2)


def test_a_scale_that_is_too_small_is_named_with_what_it_clips(onnx_files: Converted, tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(onnx_files.file("int8").path)
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "add_scale")
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) / 20, "add_scale"))
    onnx.save(model, tmp_path / "spoiled.onnx")
    before = diagnose(Path(onnx_files.file("fp32").path), Path(onnx_files.file("int8").path), inputs("onnx"))
    after = diagnose(Path(onnx_files.file("fp32").path), tmp_path / "spoiled.onnx", inputs("onnx"))
    layer = {entry.name: entry for entry in after.layers}["add"]
    good = {entry.name: entry for entry in before.layers}["add"]
    assert layer.rounding_decibel < good.rounding_decibel - 20
    assert layer.clipped > 0.5
    worst = min(after.layers, key=lambda entry: entry.rounding_decibel)
    assert worst.name == "add"


def test_files_that_share_no_tensor_are_refused(onnx_files: Converted) -> None:
    path = Path(onnx_files.file("fp32").path)
    with pytest.raises(
        ConversionError, match=r"model-fp32.onnx holds no 8-bit activation that model-fp32.onnx has too"
    ):
        diagnose(path, path, inputs("onnx"))
