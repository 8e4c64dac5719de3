from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from export import int8_tflite
from export.errors import ConversionError
from export.graph import float_operators
from export.inspect_tflite import graph_of
from export.layout import file_input
from export.parity import run_file
from export.pipeline import file_contract
from export.request import IODType
from tests.export.conftest import Converted, make_contract, make_request, make_samples

pytestmark = pytest.mark.filterwarnings("ignore:Warning. Enabling `experimental_preserve_all_tensors`:UserWarning")

DTYPES: tuple[IODType, ...] = ("float32", "int8", "uint8")


@pytest.fixture(scope="module")
def model(tflite_files: Converted) -> bytes:
    return Path(tflite_files.file("fp32").path).read_bytes()


@pytest.fixture(scope="module")
def int8(tflite_files: Converted) -> bytes:
    return Path(tflite_files.file("int8").path).read_bytes()


def _inputs(count: int) -> Iterator[dict[str, np.ndarray]]:
    return ({"input": file_input(make_contract("tflite"), sample)} for sample in make_samples(count, seed=1))


def test_the_float_file_needs_no_transpose(tflite_files: Converted) -> None:
    assert tflite_files.file("fp32").inspection.transposes == 0


def test_int8_leaves_nothing_float_between_input_and_output(int8: bytes) -> None:
    graph = graph_of(int8)
    assert float_operators(graph) == ()
    kinds = {operator.kind for operator in graph.operators if operator.domain == "int8"}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "ADD", "MEAN", "FULLY_CONNECTED"} <= kinds


def test_ranges_are_the_true_extremes_over_all_samples(model: bytes) -> None:
    samples = make_samples(20)
    samples[7] *= 3  # one outlier, which a moving average would smooth away
    arrays = [file_input(make_contract("tflite"), sample) for sample in samples]
    ranges = int8_tflite.measure_ranges(model, ({"input": array} for array in arrays))
    (name,) = (name for name in ranges if name.endswith("_input"))
    assert (ranges[name]["min"][0], ranges[name]["max"][0]) == (samples.min(), samples.max())


def test_ranges_are_finite_though_max_pooling_pads_with_minus_infinity(model: bytes) -> None:
    assert any(operator.kind == "PADV2" for operator in graph_of(model).operators)
    ranges = int8_tflite.measure_ranges(model, _inputs(4))
    assert all(np.isfinite(values[end]).all() for values in ranges.values() for end in ("min", "max"))


def test_infinite_activations_are_an_error_that_names_the_tensor(model: bytes) -> None:
    overflow = [{"input": np.full((1, 12, 12, 3), 3e38, np.float32)}]
    with pytest.raises(ConversionError, match="takes infinite or NaN values, so no INT8 scale fits it"):
        int8_tflite.measure_ranges(model, overflow)


def test_calibration_holds_one_sample_at_a_time_and_its_memory_does_not_grow(model: bytes) -> None:
    seen: list[weakref.ref[np.ndarray]] = []
    most = 0

    def stream(count: int) -> Iterator[dict[str, np.ndarray]]:
        nonlocal most
        for _ in range(count):
            sample = file_input(make_contract("tflite"), make_samples(1)[0])
            seen[:] = [*(reference for reference in seen if reference() is not None), weakref.ref(sample)]
            most = max(most, len(seen))
            yield {"input": sample}

    int8_tflite.measure_ranges(model, stream(50))
    gc.collect()
    before = psutil.Process().memory_info().rss
    int8_tflite.measure_ranges(model, stream(1500))
    assert most <= 2
    assert psutil.Process().memory_info().rss - before < 4_000_000


@pytest.mark.parametrize("input_dtype", DTYPES)
@pytest.mark.parametrize("output_dtype", DTYPES)
def test_integer_interfaces_give_the_same_answers(
    model: bytes, int8: bytes, tmp_path: Path, input_dtype: IODType, output_dtype: IODType
) -> None:
    request = make_request(tmp_path, "tflite", input_dtype=input_dtype, output_dtype=output_dtype)
    stored = int8_tflite.to_int8(model, _inputs(64), input_dtype, output_dtype)
    inputs = [file_input(request.contract, sample) for sample in make_samples(8)]
    answers = []
    for name, content, contract in [
        ("float", int8, request.contract),
        ("stored", stored, file_contract(request, "int8")),
    ]:
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(content)
        (output,) = run_file(path, contract, inputs, "litert")
        answers.append(output.values)
        assert output.stored.dtype == ("float32" if name == "float" else output_dtype)
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-6)
