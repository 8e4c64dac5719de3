from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.contract import Contract, InputContract, OutputContract
from edge_runtime.engines.protocol import Array, TensorInfo
from edge_runtime.errors import ContractError, ModelFileError
from edge_runtime.session import Session, open_session
from tests.edge_runtime.model_files import OUTPUT_SCALE, SHAPE, Quantized, expected, write_onnx, write_tflite

Write = Callable[..., Path]
IMAGE = np.random.default_rng(2).integers(0, 256, (9, 7, 3), dtype=np.uint8)


def test_an_image_becomes_logits(engine_name: str, write_model: Write) -> None:
    session = open_session(write_model(), engine_name)
    prepared = session.prepare(IMAGE)
    assert prepared.shape == SHAPE
    assert prepared.dtype == np.float32
    (logits,) = session.predict([prepared])
    np.testing.assert_allclose(logits, expected(prepared), rtol=1e-5, atol=1e-5)


def test_an_int8_file_takes_and_gives_float(engine_name: str, write_model: Write) -> None:
    session = open_session(write_model(quantized=Quantized()), engine_name)
    prepared = session.prepare(IMAGE)
    (logits,) = session.predict([prepared])
    assert logits.dtype == np.float32
    assert session.engine.inputs[0].dtype == "int8"
    # Half a step of the output, and what half a step of each of 48 inputs can add up to in practice.
    np.testing.assert_allclose(logits, expected(prepared), atol=OUTPUT_SCALE / 2 + 0.1)


@pytest.mark.parametrize("engine_name", ["onnxruntime", "openvino"], indirect=True)
def test_a_uint8_file_takes_and_gives_float(engine_name: str, write_model: Write) -> None:
    quantized = Quantized("uint8", input_zero_point=128, output_zero_point=130)
    session = open_session(write_model(quantized=quantized), engine_name)
    prepared = session.prepare(IMAGE)
    assert session.engine.inputs[0].dtype == "uint8"
    np.testing.assert_allclose(session.predict([prepared])[0], expected(prepared), atol=OUTPUT_SCALE / 2 + 0.1)


def test_engines_agree_on_one_int8_onnx_file(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = write_onnx(tmp_path / "model.onnx", Quantized())
    values = [np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)]
    first, second = (open_session(path, name).predict(values)[0] for name in ("onnxruntime", "openvino"))
    np.testing.assert_allclose(first, second, atol=OUTPUT_SCALE + 1e-6)


REFUSED_INPUTS: list[tuple[Any, str]] = [
    (np.zeros((1, 3, 4, 4), np.float32), "takes shape (1, 4, 4, 3) (NHWC), got (1, 3, 4, 4); this looks like NCHW"),
    (np.zeros((4, 4, 3), np.float32), "got (4, 4, 3); the batch dimension is missing"),
    (np.zeros((1, 5, 4, 3), np.float32), "takes shape (1, 4, 4, 3) (NHWC), got (1, 5, 4, 3)"),
    (np.zeros(SHAPE, np.float64), "takes float32 values, got float64"),
    (np.zeros(SHAPE, np.uint8), "takes float32 values, got uint8; `prepare` makes one from an image"),
    ([[0.0]], "takes float32 values, got list"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED_INPUTS)
@pytest.mark.parametrize("quantized", [None, Quantized()], ids=["float", "int8"])
def test_a_wrong_input_is_refused_with_the_likely_reason(
    tmp_path: Path, quantized: Quantized | None, values: Any, words: str
) -> None:
    session = open_session(write_tflite(tmp_path / "model.tflite", quantized))
    with pytest.raises(ContractError) as caught:
        session.predict([values])
    assert words in str(caught.value)
    assert "'args_0'" in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("quantized", [None, Quantized()], ids=["float", "int8"])
def test_nan_and_infinity_are_refused(tmp_path: Path, quantized: Quantized | None, bad: float) -> None:
    values = np.zeros(SHAPE, np.float32)
    values[0, 1, 2, 0] = bad
    session = open_session(write_tflite(tmp_path / "model.tflite", quantized))
    with pytest.raises(ContractError, match="NaN or infinite"):
        session.predict([values])


def test_a_wrong_number_of_inputs_is_refused(tmp_path: Path) -> None:
    session = open_session(write_tflite(tmp_path / "model.tflite"))
    with pytest.raises(ContractError, match=r"takes 1 inputs \(args_0\), got 0"):
        session.predict([])


def one(name: str = "args_0", shape: tuple[int, ...] = SHAPE, dtype: Any = "float32") -> tuple[InputContract]:
    return (InputContract(name, shape, dtype, "ND"),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": one("args_1")}, "input 'args_1', the file does not; did you mean 'args_0'?"),
        ({"inputs": one(shape=(1, 4, 4, 4))}, "has shape (1, 4, 4, 4) in the contract, (1, 4, 4, 3) in the file"),
        ({"inputs": one(dtype="int8")}, "input 'args_0' is int8 in the contract, float32 in the file"),
        ({"outputs": (OutputContract("logits", (1, 3), "float32", "logits"),)}, "output 'logits', the file does not"),
        (
            {"outputs": (OutputContract("output_0", (1, 10), "float32", "logits"),)},
            "output 'output_0' has shape (1, 10) in the contract, (1, 3) in the file",
        ),
    ],
)
def test_a_contract_that_the_file_breaks_is_refused_at_load(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = write_tflite(tmp_path / "model.tflite", replace_contract=change)
    with pytest.raises(ContractError) as caught:
        open_session(path)
    assert words in str(caught.value)
    assert "model.tflite" in str(caught.value)


def test_an_int8_file_with_a_float_contract_is_refused(tmp_path: Path) -> None:
    path = write_tflite(tmp_path / "model.tflite", Quantized(), replace_contract={"inputs": one()})
    with pytest.raises(ContractError, match="is float32 in the contract, int8 in the file"):
        open_session(path)


def test_a_file_without_contract_is_refused_and_told_where_it_belongs(tmp_path: Path) -> None:
    path = write_tflite(tmp_path / "model.tflite", with_contract=False)
    with pytest.raises(ContractError, match=r"no contract at .*model\.contract\.json"):
        open_session(path)


@pytest.mark.parametrize("metadata", ["", '{"inputs": {"x": {"scale": 0.1, "zero_point": 0}}}'], ids=["none", "half"])
@pytest.mark.parametrize("engine_name", ["onnxruntime", "openvino"], indirect=True)
def test_an_integer_interface_without_scale_is_refused(engine_name: str, write_model: Write, metadata: str) -> None:
    with pytest.raises(ModelFileError, match="the file gives no scale and zero point"):
        open_session(write_model(quantized=Quantized(), metadata=metadata), engine_name)


@dataclass(frozen=True)
class TwoByTwo:
    """An engine whose file lists its tensors in another order than the contract, and answers with what it got."""

    name: str = "fake"
    version: str = "0"
    delegate: str = "none"
    threads: int = 1
    inputs: tuple[TensorInfo, ...] = (TensorInfo("b", (1, 2), "int8", 0.5, 1), TensorInfo("a", (1, 3), "int64"))
    outputs: tuple[TensorInfo, ...] = (
        TensorInfo("out_b", (1, 2), "int8", 0.5, 1),
        TensorInfo("out_a", (1, 3), "int64"),
    )

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        return list(arrays)


def test_inputs_and_outputs_are_matched_by_name_and_each_gets_its_own_scale() -> None:
    contract = Contract(
        task="image-classification",
        inputs=(InputContract("a", (1, 3), "int64", "ND"), InputContract("b", (1, 2), "int8", "ND")),
        outputs=(OutputContract("out_a", (1, 3), "int64", "logits"), OutputContract("out_b", (1, 2), "int8", "logits")),
        labels=(),
    )
    session = Session(TwoByTwo(), contract)
    indices, values = np.array([[1, 2, 3]]), np.array([[1.0, -2.5]], dtype=np.float32)
    stored = session.quantize([indices, values])
    assert [array.tolist() for array in stored] == [[[3, -4]], [[1, 2, 3]]]
    got_indices, got_values = session.predict([indices, values])
    np.testing.assert_array_equal(got_indices, indices)
    np.testing.assert_array_equal(got_values, values)


def test_a_tensor_that_the_contract_leaves_out_is_refused() -> None:
    contract = Contract("t", (InputContract("a", (1, 3), "int64", "ND"),), (), ())
    with pytest.raises(ContractError, match="the file has input 'b', which the contract does not mention"):
        Session(TwoByTwo(), contract)


def test_prepare_gives_channels_first_where_the_contract_says_so(tmp_path: Path) -> None:
    nhwc = open_session(write_tflite(tmp_path / "model.tflite"))
    spec = nhwc.contract.inputs[0].preprocess
    nchw = Contract("t", (InputContract("args_0", (1, 3, 4, 4), "float32", "NCHW", spec),), nhwc.contract.outputs, ())
    other = object.__new__(Session)
    other.contract = nchw
    np.testing.assert_array_equal(other.prepare(IMAGE), nhwc.prepare(IMAGE).transpose(0, 3, 1, 2))


def test_prepare_refuses_an_input_that_is_no_image(tmp_path: Path) -> None:
    session = open_session(write_tflite(tmp_path / "model.tflite", replace_contract={"inputs": one()}))
    with pytest.raises(ContractError, match="takes no image"):
        session.prepare(IMAGE)
