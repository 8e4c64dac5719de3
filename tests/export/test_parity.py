from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edge_runtime.engines.protocol import TensorInfo
from export.errors import ConversionError
from export.parity import MAX_DECIBEL, Output, compare, measure, run_file
from export.request import Precision
from tests.export.conftest import make_contract, make_samples


def _references(samples: int = 8) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(samples, 4)).astype(np.float32)


def _float(values: np.ndarray) -> Output:
    return Output("logits", values, values, TensorInfo("logits", (1, 4), "float32"))


def _int8(stored: np.ndarray, scale: float, zero_point: int = 5) -> Output:
    values = ((stored.astype(np.float32) - zero_point) * scale).astype(np.float32)
    return Output("logits", values, stored, TensorInfo("logits", (1, 4), "int8", scale, zero_point))


def _failure(output: Output, precision: Precision) -> str:
    with pytest.raises(ConversionError) as caught:
        compare([output], [_references()], precision)
    assert caught.value.kind == "parity"
    return str(caught.value)


def test_equal_outputs_have_no_difference_and_a_finite_ratio() -> None:
    parity = compare([_float(_references())], [_references()], "fp32")
    assert (parity.max_absolute, parity.max_relative, parity.argmax_agreement) == (0, 0, 1)
    assert parity.signal_to_noise_db == MAX_DECIBEL


def test_figures_follow_from_their_definitions() -> None:
    reference = np.array([[1.0, 2.0], [4.0, 3.0]], np.float32)
    parity = measure([np.array([[2.0, 1.0], [4.0, 3.0]], np.float32)], [reference])
    assert parity.max_absolute == 1.0
    assert parity.max_relative == 0.25
    assert parity.argmax_agreement == 0.5
    assert parity.signal_to_noise_db == pytest.approx(10 * np.log10(30 / 2))


def test_of_several_outputs_the_worst_counts() -> None:
    reference = _references()
    assert measure([reference, reference + 1], [reference, reference]).max_absolute == pytest.approx(1)


def test_fp32_has_to_agree_within_a_thousandth() -> None:
    reference = _references()
    largest = float(np.abs(reference).max())
    compare([_float(reference + np.float32(0.9e-3 * largest))], [reference], "fp32")
    assert "differs from the torch module" in _failure(_float(reference + np.float32(1.1e-3 * largest)), "fp32")


def test_other_precisions_may_differ() -> None:
    reference = _references()
    assert compare([_float(reference * 1.2)], [reference], "int8").max_relative == pytest.approx(0.2, rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8-dynamic", "int8"])
def test_an_output_that_never_changes_has_collapsed_in_every_precision(precision: Precision) -> None:
    constant = np.repeat(_references(1), 8, axis=0)
    assert f"{precision}: output 'logits' is the same for all 8 samples" in _failure(_float(constant), precision)


def test_an_output_stuck_at_its_zero_point_is_told_with_the_scale_that_is_too_coarse() -> None:
    message = _failure(_int8(np.full((8, 4), 5, np.int8), scale=392.0), "int8")
    assert "stuck at its zero point 5" in message
    assert "its scale 392 is coarser than the values" in message


def test_a_saturated_output_is_told_with_the_range_that_does_not_fit() -> None:
    stored = np.where(_references() > 0, 127, -128).astype(np.int8)
    message = _failure(_int8(stored, scale=1e-3, zero_point=0), "int8")
    assert "is saturated" in message
    assert "its range -0.128 to 0.127 does not fit the values" in message


def test_values_that_are_not_finite_are_told_with_their_likely_cause() -> None:
    broken = _references()
    broken[3, 2] = np.inf
    assert "overflow fp16" in _failure(_float(broken), "fp16")
    assert "holds NaN or infinite values" in _failure(_float(broken), "int8")


def test_a_module_that_answers_the_same_to_everything_is_no_collapse() -> None:
    constant = np.ones((8, 4), np.float32)
    assert compare([_float(constant)], [constant], "int8").max_absolute == 0


def test_a_file_that_the_engine_refuses_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ConversionError, match="onnxruntime does not run the converted file"):
        run_file(path, make_contract(), [make_samples(1)], "onnxruntime")
