"""Float ONNX model to its other precisions: INT8 with true min-max ranges, weights INT8, fp16."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

from edge_runtime.engines.onnx_file import QUANTIZATION_KEY
from export.errors import ConversionError
from export.inspect_onnx import INT8_OPERATORS
from export.request import IODType
from export.targets import Target

Ranges = dict[str, tuple[np.float32, np.float32]]

DYNAMIC_SCHEME = "u8u8 per-tensor dynamic"

_TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}
_STORED = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


@dataclass(frozen=True)
class _Boundary:
    """The conversion node at an input or output, and how that tensor is stored."""

    node: NodeProto
    scale: float
    zero_point: int
    dtype: str


def scheme(target: Target) -> str:
    """The INT8 scheme of a target by its usual name, activations first: `u8s8 per-channel reduce-range qdq`."""
    short = {"uint8": "u8", "int8": "s8"}
    reduced = " reduce-range" if target.onnx_reduce_range else ""
    return f"{short[target.onnx_activation]}{short[target.onnx_weight]} per-channel{reduced} qdq"


def to_int8(model: ModelProto, inputs: Iterable[NDArray[np.float32]], target: Target, threads: int = 1) -> ModelProto:
    """INT8 weights per channel and INT8 activations, in the target's scheme, with float input and output.

    `inputs` are calibration inputs as the model takes them, with batch; they are read once, one at a time.
    """
    ranges = measure_ranges(model, inputs, threads)
    quantizer = QDQQuantizer(
        _copy(model),
        per_channel=True,
        reduce_range=target.onnx_reduce_range,
        weight_qType=_TYPES[target.onnx_weight],
        activation_qType=_TYPES[target.onnx_activation],
        tensors_range=TensorsData(CalibrationMethod.MinMax, dict(ranges)),
        nodes_to_quantize=[],
        nodes_to_exclude=[],
        op_types_to_quantize=sorted(INT8_OPERATORS),
        extra_options={},
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    result: ModelProto = quantizer.model.model
    return result


def measure_ranges(model: ModelProto, inputs: Iterable[NDArray[np.float32]], threads: int = 1) -> Ranges:
    """The smallest and largest value of every activation over all inputs: true min-max, no moving average.

    The reductions are part of the graph, so that memory depends neither on the number of inputs nor, much, on the
    size of activations. Raises ConversionError, naming the tensor, where a value is infinite or NaN.
    """
    names = activation_names(model)
    session = onnxruntime.InferenceSession(
        _with_reductions(model, names).SerializeToString(), _session_options(threads), ["CPUExecutionProvider"]
    )
    low = np.full(len(names), np.inf, np.float32)
    high = np.full(len(names), -np.inf, np.float32)
    outputs = [f"{name}::{end}" for name in names for end in ("min", "max")]
    for array in inputs:
        extremes = np.asarray(session.run(outputs, {model.graph.input[0].name: array}), np.float32).reshape(-1, 2)
        np.minimum(low, extremes[:, 0], out=low)
        np.maximum(high, extremes[:, 1], out=high)
    unbounded = [name for index, name in enumerate(names) if not np.isfinite((low[index], high[index])).all()]
    if unbounded:
        raise ConversionError(
            f"calibration: '{unbounded[0]}' takes infinite or NaN values, so no INT8 scale fits it", "calibration"
        )
    return {name: (low[index], high[index]) for index, name in enumerate(names)}


def activation_names(model: ModelProto) -> list[str]:
    """Every float tensor that is computed or fed, in the order of the graph."""
    graph = model.graph
    known = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
    order = [value.name for value in graph.input] + [name for node in graph.node for name in node.output]
    return [name for name in order if name in known and known[name].type.tensor_type.elem_type == TensorProto.FLOAT]


def to_int8_dynamic(model: ModelProto) -> ModelProto:
    """INT8 weights; activations are quantized while running, with ranges of the moment."""
    with tempfile.TemporaryDirectory(prefix="edgepress-") as folder:
        path = Path(folder) / "dynamic.onnx"
        # Convolutions take uint8 weights only here, and one scale for a whole weight.
        quantize_dynamic(_copy(model), path, weight_type=QuantType.QUInt8)
        return onnx.load(path)


def to_fp16(model: ModelProto) -> ModelProto:
    """Half precision inside, float32 input and output."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(_copy(model), keep_io_types=True)


def store_interface(model: ModelProto, input_dtype: IODType, output_dtype: IODType) -> ModelProto:
    """The INT8 model with integer input or output instead of float.

    Scale and zero point, which an ONNX interface has no place for, go into the metadata where the edge runtime reads
    them. When the wanted dtype is the activations' own, the conversion at the boundary is removed; when it is the
    other one, a lossless shift by 128 is put there.
    """
    result = _copy(model)
    entries: dict[str, dict[str, dict[str, float | int]]] = {"inputs": {}, "outputs": {}}
    if input_dtype != "float32":
        for value in result.graph.input:
            entries["inputs"][value.name] = _store_input(result, value, input_dtype)
    if output_dtype != "float32":
        for value in result.graph.output:
            entries["outputs"][value.name] = _store_output(result, value, output_dtype)
    helper.set_model_props(result, {QUANTIZATION_KEY: json.dumps(entries, sort_keys=True)})
    return result


def _store_input(model: ModelProto, value: onnx.ValueInfoProto, dtype: str) -> dict[str, float | int]:
    graph = model.graph
    readers = [node for node in graph.node if value.name in node.input]
    found = _boundary(model, readers, "QuantizeLinear", value.name)
    quantized = found.node.output[0]
    shifted = found.zero_point + _shift(found.dtype, dtype)
    if dtype == found.dtype:
        graph.node.remove(found.node)
        for node in graph.node:
            _rename(node.input, quantized, value.name)
    else:
        real = f"{value.name}_real"
        found.node.input[0] = real
        dequantize = _converter(model, "DequantizeLinear", value.name, real, found.scale, shifted, dtype)
        graph.node.insert(0, dequantize)
    value.type.tensor_type.elem_type = _STORED[dtype]
    return {"scale": found.scale, "zero_point": shifted}


def _store_output(model: ModelProto, value: onnx.ValueInfoProto, dtype: str) -> dict[str, float | int]:
    graph = model.graph
    producers = [node for node in graph.node if value.name in node.output]
    found = _boundary(model, producers, "DequantizeLinear", value.name)
    quantized = found.node.input[0]
    shifted = found.zero_point + _shift(found.dtype, dtype)
    if dtype == found.dtype:
        graph.node.remove(found.node)
        for node in graph.node:
            _rename(node.output, quantized, value.name)
            _rename(node.input, quantized, value.name)
    else:
        real = f"{value.name}_real"
        found.node.output[0] = real
        graph.node.append(_converter(model, "QuantizeLinear", real, value.name, found.scale, shifted, dtype))
    value.type.tensor_type.elem_type = _STORED[dtype]
    return {"scale": found.scale, "zero_point": shifted}


def _boundary(model: ModelProto, nodes: list[NodeProto], operator: str, name: str) -> _Boundary:
    """The only node there, which has to be a conversion; anything else means that the tensor stayed float."""
    if len(nodes) != 1 or nodes[0].op_type != operator:
        found = ", ".join(sorted({node.op_type for node in nodes})) or "nothing"
        raise ValueError(f"'{name}' stayed float: expected {operator} beside it, found {found}")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scale, zero_point = (constants[part] for part in nodes[0].input[1:3])
    return _Boundary(nodes[0], float(scale), int(zero_point), str(zero_point.dtype))


def _converter(
    model: ModelProto, operator: str, source: str, output: str, scale: float, zero_point: int, dtype: str
) -> NodeProto:
    names = [f"{source}_{dtype}_{part}" for part in ("scale", "zero_point")]
    values = (np.asarray(scale, np.float32), np.asarray(zero_point, dtype))
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in zip(names, values, strict=True)
    )
    return helper.make_node(operator, [source, *names], [output], f"{source}/{operator}")


def _shift(stored: str, wanted: str) -> int:
    """What is added to a zero point when the same numbers are stored in the other 8-bit type."""
    return {("uint8", "int8"): -128, ("int8", "uint8"): 128}.get((stored, wanted), 0)


def _rename(names: object, old: str, new: str) -> None:
    for index, name in enumerate(names):  # type: ignore[arg-type, var-annotated]
        if name == old:
            names[index] = new  # type: ignore[index]


def _with_reductions(model: ModelProto, names: list[str]) -> ModelProto:
    augmented = _copy(model)
    for name in names:
        for end, operator in (("min", "ReduceMin"), ("max", "ReduceMax")):
            output = f"{name}::{end}"
            augmented.graph.node.append(helper.make_node(operator, [name], [output], keepdims=0))
            augmented.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, []))
    return augmented


def _session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return options


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy
