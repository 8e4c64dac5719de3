"""Float ONNX model to its other precisions: INT8 with true min-max ranges, weights INT8, fp16."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from export.learned import Learned, match_activations, match_weights
from export.ranges import Estimator, estimate
from export.request import IODType
from export.targets import Target

Ranges = dict[str, tuple[np.float32, np.float32]]

MIN_MAX = Estimator()

REDUCED_LEVELS = 64
"""Largest integer of a weight of 7 bits."""

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


def to_int8(
    model: ModelProto,
    inputs: Iterable[NDArray[np.float32]],
    target: Target,
    threads: int = 1,
    learned: Learned | None = None,
    estimator: Estimator = MIN_MAX,
) -> ModelProto:
    """INT8 weights per channel and INT8 activations, in the target's scheme, with float input and output.

    `inputs` are calibration inputs as the model takes them, with batch, read one at a time: once, and once more unless
    the estimator is min-max. `learned` scales take the place of measured ranges; calibration still gives those of what
    a converter added. Raises ConversionError when a scale has no tensor, or weights are wider than the target's kernels
    can take.
    """
    overrides = {} if learned is None else learned_overrides(model, learned, target, threads)
    ranges = measure_ranges(model, inputs, threads)
    if estimator.method != "min-max":
        ranges = _estimated(model, inputs, threads, estimator, ranges)
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
        extra_options=overrides,
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    result: ModelProto = quantizer.model.model
    return result


def learned_overrides(model: ModelProto, learned: Learned, target: Target, threads: int = 1) -> dict[str, Any]:
    """The quantizer's options that set every learned scale as it is."""
    if target.onnx_reduce_range and learned.injection.levels > REDUCED_LEVELS:
        raise ConversionError(
            f"weights of 8 bits saturate in the kernels of {target.name}: sums of two products overflow 16 bits; "
            "train with `weight_bits: 7`"
        )
    shift = -128 if target.onnx_activation == "int8" else 0
    dtype = {"int8": np.int8, "uint8": np.uint8}[target.onnx_activation]
    tensors: dict[str, list[dict[str, Any]]] = {
        name: [
            {
                "scale": np.asarray(entry.scale, np.float32),
                "zero_point": np.asarray(entry.zero_point + shift, dtype),
                "quant_type": _TYPES[target.onnx_activation],
            }
        ]
        for name, entry in match_activations(learned.injection, _activations(model, learned.probes, threads)).items()
    }
    constants = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT
    }
    activations = [node for node in model.graph.node if node.op_type in ("Relu", "Clip") and node.output[0] in tensors]
    keep = not all(_implied(node, tensors[node.output[0]][0], constants, shift) for node in activations)
    if keep:
        # Rounding to the same scale before and after the activation gives what rounding after it gives.
        tensors |= {node.input[0]: tensors[node.output[0]] for node in activations}
    for name, layer in match_weights(learned.injection, constants).items():
        axis = 0 if np.array_equal(layer.weight, constants[name]) else 1
        tensors[name] = [
            {"axis": axis, "scale": scale, "zero_point": np.asarray(0, np.int8), "quant_type": QuantType.QInt8}
            for scale in layer.scales
        ]
    # Scales of weights are chosen so that no bias overflows; the quantizer's own correction would change them.
    return {
        "TensorQuantOverrides": tensors,
        "QDQDisableWeightAdjustForInt32Bias": True,
        "QDQKeepRemovableActivations": keep,
    }


def _implied(node: NodeProto, scale: dict[str, Any], constants: dict[str, NDArray[Any]], shift: int) -> bool:
    """True when rounding alone does what the activation does: the numbers end where it clips.

    The quantizer removes activations without asking; where a concatenation shares its scale they may clip earlier.
    """
    zero_point = int(scale["zero_point"]) - shift
    top = constants.get(node.input[2]) if node.op_type == "Clip" and len(node.input) > 2 else None
    step = float(scale["scale"])
    return zero_point == 0 and (top is None or 255 * step <= float(top) + step / 2)


def _activations(
    model: ModelProto, probes: Sequence[NDArray[np.float32]], threads: int
) -> dict[str, NDArray[np.float32]]:
    """Every float activation over the samples (N, ...), by name."""
    collected: dict[str, list[NDArray[np.float32]]] = {}
    for values in _every_tensor(model, probes, threads):
        for name, value in values.items():
            if value.ndim > 1 and value.shape[0] == 1:
                collected.setdefault(name, []).append(value[0])
    return {name: np.stack(values) for name, values in collected.items() if len(values) == len(probes)}


def _every_tensor(
    model: ModelProto, inputs: Iterable[NDArray[np.float32]], threads: int
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """The values of every float activation, input by input."""
    source = model.graph.input[0].name
    names = [name for name in activation_names(model) if name != source]
    watched = _copy(model)
    outputs = {value.name for value in model.graph.output}
    known = {value.name: value for value in model.graph.value_info}
    watched.graph.output.extend(known[name] for name in names if name not in outputs)
    session = onnxruntime.InferenceSession(
        watched.SerializeToString(), _session_options(threads), ["CPUExecutionProvider"]
    )
    for array in inputs:
        yield {source: array, **dict(zip(names, session.run(names, {source: array}), strict=True))}


def _estimated(
    model: ModelProto, inputs: Iterable[NDArray[np.float32]], threads: int, estimator: Estimator, measured: Ranges
) -> Ranges:
    extremes = {name: (float(low), float(high)) for name, (low, high) in measured.items()}
    found = estimate(estimator, _every_tensor(model, inputs, threads), extremes)
    return {name: (np.float32(low), np.float32(high)) for name, (low, high) in found.items()}


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
