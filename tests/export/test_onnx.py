from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edge_runtime.engines.onnx_file import QUANTIZATION_KEY
from export import int8_onnx
from export.errors import ConversionError
from export.graph import float_islands, float_operators
from export.inspect_onnx import graph_of
from export.layout import file_input
from export.module import reference_outputs
from export.onnx import convert_float, pool_globally
from export.parity import compare, run_file
from export.pipeline import file_contract
from export.request import IODType
from export.targets import TARGETS, resolve_target
from tests.export.conftest import Converted, make_contract, make_request, make_samples
from tests.export.networks import dead, tiny

DTYPES: tuple[IODType, ...] = ("float32", "int8", "uint8")


@pytest.fixture(scope="module")
def model(onnx_files: Converted) -> ModelProto:
    return onnx.load(onnx_files.file("fp32").path)


@pytest.fixture(scope="module")
def int8(model: ModelProto) -> ModelProto:
    return int8_onnx.to_int8(model, _inputs(64), TARGETS["x86-avx2"])


def _inputs(count: int) -> Iterator[np.ndarray]:
    return (file_input(make_contract(), sample) for sample in make_samples(count, seed=1))


def test_nodes_are_named_by_module_path(model: ModelProto) -> None:
    names = [node.name for node in model.graph.node]
    assert "block.depthwise/Conv" in names
    assert "block/Add" in names
    assert len(set(names)) == len(names)


def test_interface_is_named_as_the_contract_says_with_fixed_shapes(model: ModelProto) -> None:
    (entry,), (answer,) = model.graph.input, model.graph.output
    assert (entry.name, answer.name) == ("input", "logits")
    assert [dim.dim_value for dim in entry.type.tensor_type.shape.dim] == [1, 3, 12, 12]


def test_no_stack_trace_is_left_in_the_file(model: ModelProto) -> None:
    parts = (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer)
    assert not any(part.metadata_props or part.doc_string for part in parts)


def test_ranges_are_the_true_extremes_over_all_samples(model: ModelProto) -> None:
    samples = make_samples(20)
    samples[7] *= 3  # one outlier, which a moving average would smooth away
    ranges = int8_onnx.measure_ranges(model, (sample[None] for sample in samples))
    assert ranges["input"] == (samples.min(), samples.max())
    session = onnxruntime.InferenceSession(model.SerializeToString())
    logits = np.concatenate([session.run(["logits"], {"input": sample[None]})[0] for sample in samples])
    assert ranges["logits"] == pytest.approx((logits.min(), logits.max()))


def test_infinite_activations_are_an_error_that_names_the_tensor() -> None:
    model = _model([helper.make_node("Log", ["x"], ["y"], "log")], (1, 3), (1, 3), [])
    samples = [np.array([[1.0, 2.0, 0.0]], np.float32)]
    with pytest.raises(ConversionError, match="calibration: 'y' takes infinite or NaN values"):
        int8_onnx.measure_ranges(model, iter(samples))


def test_calibration_holds_one_sample_at_a_time_and_its_memory_does_not_grow(model: ModelProto) -> None:
    seen: list[weakref.ref[np.ndarray]] = []
    most = 0

    def stream(count: int) -> Iterator[np.ndarray]:
        nonlocal most
        for _ in range(count):
            sample = make_samples(1)
            seen[:] = [*(reference for reference in seen if reference() is not None), weakref.ref(sample)]
            most = max(most, len(seen))
            yield sample

    int8_onnx.measure_ranges(model, stream(50))
    gc.collect()
    before = psutil.Process().memory_info().rss
    int8_onnx.measure_ranges(model, stream(3000))
    assert most <= 2
    assert psutil.Process().memory_info().rss - before < 4_000_000


def test_int8_leaves_nothing_float_between_input_and_output(int8: ModelProto) -> None:
    graph = graph_of(int8)
    assert float_operators(graph) == ()
    kinds = {operator.kind for operator in graph.operators if operator.domain == "int8"}
    assert {"Conv", "MaxPool", "Add", "GlobalAveragePool", "Reshape", "Gemm"} <= kinds


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_gets_its_scheme(model: ModelProto, name: str) -> None:
    target = resolve_target(name)
    result = int8_onnx.to_int8(model, _inputs(16), target)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    activations = {
        constants[node.input[2]].dtype.name for node in result.graph.node if node.op_type == "QuantizeLinear"
    }
    weights = constants["module.block.expand.weight_quantized"]
    assert activations == {target.onnx_activation}
    assert weights.dtype.name == target.onnx_weight
    assert np.abs(weights.astype(int)).max() == (64 if target.onnx_reduce_range else 127)
    assert int8_onnx.scheme(target).split()[0] == {"uint8": "u8s8", "int8": "s8s8"}[target.onnx_activation]


@pytest.mark.parametrize("input_dtype", DTYPES)
@pytest.mark.parametrize("output_dtype", DTYPES)
def test_integer_interfaces_give_the_same_answers(
    int8: ModelProto, tmp_path: Path, input_dtype: IODType, output_dtype: IODType
) -> None:
    request = make_request(tmp_path, input_dtype=input_dtype, output_dtype=output_dtype)
    stored = int8_onnx.store_interface(int8, input_dtype, output_dtype)
    onnx.checker.check_model(stored)
    inputs = list(_inputs(8))
    answers = []
    for name, content, contract in [
        ("float", int8, make_contract()),
        ("stored", stored, file_contract(request, "int8")),
    ]:
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content.SerializeToString())
        (output,) = run_file(path, contract, inputs, "onnxruntime")
        answers.append(output.values)
        assert output.stored.dtype == ("float32" if name == "float" else output_dtype)
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-6)


def test_the_interface_of_a_uint8_scheme_costs_no_conversion_in_uint8(int8: ModelProto) -> None:
    stored = int8_onnx.store_interface(int8, "uint8", "uint8")
    assert len(stored.graph.node) == len(int8.graph.node) - 2
    entries = json.loads({entry.key: entry.value for entry in stored.metadata_props}[QUANTIZATION_KEY])
    assert set(entries["inputs"]) == {"input"}
    assert entries["outputs"]["logits"]["scale"] > 0


def test_means_over_height_and_width_become_global_pooling() -> None:
    values = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    for keep, axes, shape in ((1, [2, 3], (1, 3, 1, 1)), (0, [-1, -2], (1, 3))):
        model = _reduction(axes, keep)
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": values})[0]
        pool_globally(model)
        assert model.graph.node[0].op_type == "GlobalAveragePool"
        found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": values})[0]
        assert found.shape == shape
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_means_stay() -> None:
    model = _reduction([1], 1)
    pool_globally(model)
    assert [node.op_type for node in model.graph.node] == ["ReduceMean"]


def test_an_operator_without_int8_kernel_is_a_float_island() -> None:
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 4, 1, 1)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Erf", ["a"], ["b"], "erf"),
        helper.make_node("Conv", ["b", "w"], ["y"], "second"),
    ]
    model = _model(nodes, (1, 4, 4, 4), (1, 4, 4, 4), [weight])
    samples = np.random.default_rng(1).normal(size=(4, 1, 4, 4, 4)).astype(np.float32)
    graph = graph_of(int8_onnx.to_int8(model, iter(samples), TARGETS["x86-avx2"]))
    assert [[operator.name for operator in island] for island in float_islands(graph)] == [["erf"]]


def test_a_collapsed_int8_output_is_an_error_that_names_tensor_and_cause(tmp_path: Path) -> None:
    module, contract, samples = dead().eval(), make_contract(), make_samples(8)
    model = int8_onnx.to_int8(convert_float(module, contract), _inputs(16), TARGETS["x86-avx2"])
    path = tmp_path / "dead.onnx"
    path.write_bytes(model.SerializeToString())
    outputs = run_file(path, contract, [sample[None] for sample in samples], "onnxruntime")
    with pytest.raises(ConversionError, match="int8: output 'logits' is the same for all 8 samples"):
        compare(outputs, reference_outputs(module, contract, samples), "int8")


def test_a_contract_in_nhwc_moves_the_axes_inside_the_file(tmp_path: Path) -> None:
    module, contract, samples = tiny().eval(), make_contract("tflite"), make_samples(4)
    path = tmp_path / "nhwc.onnx"
    path.write_bytes(convert_float(module, contract).SerializeToString())
    outputs = run_file(path, contract, [file_input(contract, sample) for sample in samples], "onnxruntime")
    assert compare(outputs, reference_outputs(module, contract, samples), "fp32").max_relative < 1e-5


def _reduction(axes: list[int], keep: int) -> ModelProto:
    constant = numpy_helper.from_array(np.asarray(axes, np.int64), "axes")
    nodes = [helper.make_node("ReduceMean", ["m", "axes"], ["y"], "ReduceMean", keepdims=keep)]
    model = _model(nodes, (1, 3, 4, 4), None, [constant])
    # The mean reads a computed value, whose rank stands in the graph.
    model.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, (1, 3, 4, 4)))
    model.graph.node[0].input[0] = "x"
    model.graph.value_info[0].name = "x"
    return model


def _model(nodes, shape, output, constants) -> ModelProto:  # type: ignore[no-untyped-def]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)
