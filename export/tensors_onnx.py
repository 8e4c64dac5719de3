"""Every value that an ONNX file computes, and its quantized activations as their Q/DQ nodes name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from edge_runtime.quantization import Quantization

_SUFFIX = "_DequantizeLinear_Output"


class OnnxTensors:
    """Runs a file sample by sample, unoptimized, so that every node is there.

    Float activations go by their own names; 8-bit ones by the name that the float model has for their value.
    """

    def __init__(self, path: Path) -> None:
        model = shape_inference.infer_shapes(onnx.load(path))
        self._input = model.graph.input[0].name
        self._quantized = _quantized(model)
        stored = {source: name for name, (source, _) in self._quantized.items()}
        floats = [name for name in _floats(model) if name not in self._quantized]
        self._names = {**{name: name for name in floats}, **stored}
        self._session = _session(model, [name for name in self._names if name != self._input])

    def run(self, array: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Tensors by name; 8-bit ones as stored. `array` is the input as the file takes it."""
        wanted = [name for name in self._names if name != self._input]
        values = dict(zip(wanted, self._session.run(wanted, {self._input: array}), strict=True))
        return {
            self._names[name]: value for name, value in {**values, self._input: array}.items() if name in self._names
        }

    def quantizations(self) -> dict[str, Quantization]:
        return {name: quantization for name, (_, quantization) in self._quantized.items()}


def _quantized(model: ModelProto) -> dict[str, tuple[str, Quantization]]:
    """The 8-bit tensor and the quantization of each activation."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] in constants or len(node.input) < 3:
            continue
        scale, zero_point = constants[node.input[1]], constants[node.input[2]]
        if scale.size == 1 and zero_point.dtype.name in ("int8", "uint8"):
            quantization = Quantization(zero_point.dtype.name, float(scale), int(zero_point))
            found[node.output[0].removesuffix(_SUFFIX)] = (node.input[0], quantization)
    return found


def _floats(model: ModelProto) -> list[str]:
    """Float values that are fed or that a node computes; the quantizer leaves information of others behind."""
    graph = model.graph
    computed = {value.name for value in graph.input} | {name for node in graph.node for name in node.output}
    values = (*graph.input, *graph.value_info, *graph.output)
    floats = {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    return sorted(floats & computed)


def _session(model: ModelProto, names: list[str]) -> onnxruntime.InferenceSession:
    watched = ModelProto()
    watched.CopyFrom(model)
    known = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    present = {value.name for value in model.graph.output}
    for name in names:
        if name not in present:
            value = known.get(name)
            watched.graph.output.append(value if value is not None else helper.make_empty_tensor_value_info(name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(watched.SerializeToString(), options, ["CPUExecutionProvider"])
