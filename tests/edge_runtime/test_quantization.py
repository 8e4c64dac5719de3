from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.engines.protocol import TensorInfo
from edge_runtime.errors import ContractError, ModelFileError
from edge_runtime.quantization import Quantization, checked, dequantize, of_tensor, quantize

LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


@given(
    dtype=st.sampled_from(["int8", "uint8"]),
    scale=st.floats(2**-13, 10, width=32),
    offset=st.integers(0, 255),
    values=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20),
)
def test_the_error_is_half_a_step_inside_the_range_and_the_border_outside(
    dtype: str, scale: float, offset: int, values: list[float]
) -> None:
    low, high = LIMITS[dtype]
    quantization = Quantization(dtype, scale, low + offset)
    real = np.array(values, dtype=np.float32)
    back = dequantize(quantize(real, quantization), quantization)
    nearest = np.clip(real, (low - quantization.zero_point) * scale, (high - quantization.zero_point) * scale)
    assert np.abs(back - nearest).max() <= scale / 2 * (1 + 1e-4) + 1e-5 * np.abs(nearest).max()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_stored_value_survives_the_trip(dtype: str) -> None:
    stored = np.arange(LIMITS[dtype][0], LIMITS[dtype][1] + 1).astype(dtype)
    for scale in (0.0078125, 1 / 255, 0.1, 3.7):
        quantization = Quantization(dtype, float(np.float32(scale)), 7)
        again = quantize(dequantize(stored, quantization), quantization)
        assert again.dtype == dtype
        np.testing.assert_array_equal(again, stored)


def test_halves_round_to_even_as_onnx_says() -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5], dtype=np.float32)
    assert quantize(halves, Quantization("int8", 1.0, 0)).tolist() == [0, 2, 2, 0, -2]


def test_values_beyond_the_range_saturate() -> None:
    wide = np.array([-1e30, 1e30], dtype=np.float32)
    assert quantize(wide, Quantization("int8", 0.1, 3)).tolist() == [-128, 127]
    assert quantize(wide, Quantization("uint8", 0.1, 3)).tolist() == [0, 255]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ContractError, match="NaN or infinite"):
        quantize(np.array([0, bad, 1], dtype=np.float32), Quantization("int8", 1.0, 0))


def test_the_input_is_left_as_it_was() -> None:
    values = np.array([0.3, -0.7], dtype=np.float32)
    quantize(values, Quantization("int8", 0.1, 0))
    assert values.tolist() == [np.float32(0.3), np.float32(-0.7)]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_without_meaning_is_refused(scale: float) -> None:
    with pytest.raises(ModelFileError, match="'x' is int8 with scale"):
        checked("x", "int8", scale, 0)


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256)])
def test_a_zero_point_outside_the_dtype_is_refused(dtype: str, zero_point: int) -> None:
    with pytest.raises(ModelFileError, match=f"zero point {zero_point}, outside"):
        checked("x", dtype, 1.0, zero_point)


def test_float_and_index_tensors_are_not_quantized() -> None:
    assert of_tensor(TensorInfo("x", (1,), "float32")) is None
    assert of_tensor(TensorInfo("ids", (1,), "int64")) is None


def test_an_integer_tensor_without_scale_has_no_meaning() -> None:
    with pytest.raises(ModelFileError, match="the file gives no scale"):
        of_tensor(TensorInfo("x", (1,), "int8"))
