"""Reads an ONNX file as a graph of operators. Shapes come from shape inference, INT8 from the Q/DQ nodes around."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import onnx
from onnx import ModelProto, NodeProto, TensorProto, shape_inference

from export.graph import Domain, Graph, Operator, Weight

INT8_OPERATORS = frozenset(
    {
        "Conv",
        "Gemm",
        "MatMul",
        "Add",
        "Mul",
        "Relu",
        "Clip",
        "LeakyRelu",
        "Sigmoid",
        "Softmax",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "Concat",
        "Split",
        "Slice",
        "Pad",
        "Resize",
        "Where",
        "Gather",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
    }
)
"""What ONNX Runtime computes on INT8 operands on a CPU, or passes INT8 through, when it stands between Q/DQ nodes.

Others compute on floats even there: conversions around them would cost and gain nothing, so they are left float.
"""

_BYTE = (TensorProto.INT8, TensorProto.UINT8)
_REAL = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_CONVERSIONS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast"}
_INTEGER = {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
# Position of the weight among the inputs; QLinear operators have scale and zero point between.
_WEIGHT = {"Conv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "ConvInteger": 1, "MatMulInteger": 1}
_WEIGHT |= {"QLinearConv": 3, "QLinearMatMul": 3}


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    type: int


@dataclass(frozen=True)
class _Names:
    """What is known about the values of a graph by name."""

    tensors: dict[str, _Tensor]
    constants: dict[str, TensorProto]
    writer: dict[str, NodeProto]
    readers: dict[str, list[NodeProto]]


def read_onnx(path: str) -> Graph:
    """The operators of an ONNX file. Raises what the onnx package raises when the file is none."""
    return graph_of(onnx.load(path))


def graph_of(model: ModelProto) -> Graph:
    """The operators of a model; constants that only pass through a DequantizeLinear count as weights of the reader."""
    names = _names(shape_inference.infer_shapes(model))
    return Graph(tuple(_operator(node, names) for node in model.graph.node))


def _names(model: ModelProto) -> _Names:
    graph = model.graph
    tensors = {
        value.name: _Tensor(
            tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim), value.type.tensor_type.elem_type
        )
        for value in (*graph.value_info, *graph.input, *graph.output)
    }
    constants = {tensor.name: tensor for tensor in graph.initializer}
    tensors |= {name: _Tensor(tuple(tensor.dims), tensor.data_type) for name, tensor in constants.items()}
    readers: dict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    return _Names(tensors, constants, {name: node for node in graph.node for name in node.output}, readers)


def _operator(node: NodeProto, names: _Names) -> Operator:
    constant = {name: _constant(name, names) for name in node.input if name}
    return Operator(
        kind=node.op_type,
        name=node.name or node.output[0],
        reads=tuple(name for name, found in constant.items() if found is None),
        writes=tuple(node.output),
        domain=_domain(node, names),
        macs=_macs(node, names),
        weights=_weights(node, names),
    )


def _constant(name: str, names: _Names) -> TensorProto | None:
    """The constant that a value is, directly or dequantized; None for an activation."""
    writer = names.writer.get(name)
    if writer is not None and writer.op_type == "DequantizeLinear":
        return names.constants.get(writer.input[0])
    return names.constants.get(name)


def _domain(node: NodeProto, names: _Names) -> Domain:
    if node.op_type in _CONVERSIONS:
        return "convert"
    if node.op_type in _INTEGER:
        return "int8"
    operands = [name for name in node.input if name in names.tensors and names.tensors[name].type in _REAL]
    results = [name for name in node.output if name in names.tensors and names.tensors[name].type in _REAL]
    if not operands and not results:
        stored = [names.tensors[name].type for name in node.input if name in names.tensors]
        return "int8" if any(kind in _BYTE for kind in stored) else "other"
    inside = all(_dequantized(name, names) for name in operands) and all(_quantized(name, names) for name in results)
    return "int8" if inside and node.op_type in INT8_OPERATORS else "float"


def _dequantized(name: str, names: _Names) -> bool:
    """True when a float operand is what a DequantizeLinear gave (a bias may be 32 bits wide)."""
    writer = names.writer.get(name)
    return writer is not None and writer.op_type == "DequantizeLinear"


def _quantized(name: str, names: _Names) -> bool:
    readers = names.readers.get(name, [])
    return bool(readers) and all(reader.op_type == "QuantizeLinear" for reader in readers)


def _macs(node: NodeProto, names: _Names) -> int:
    if node.op_type not in _WEIGHT:
        return 0
    first = names.tensors[node.input[0]].shape
    weight = names.tensors[node.input[_WEIGHT[node.op_type]]].shape
    output = names.tensors[node.output[0]].shape
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(weight[1:])
    if "Conv" in node.op_type:
        return math.prod(output) * math.prod(weight[1:])
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return math.prod(output) * (first[0] if transposed else first[-1])


def _weights(node: NodeProto, names: _Names) -> tuple[Weight, ...]:
    """The weight operand of a multiply-accumulate operator; of others, constants that are more than a vector."""
    if node.op_type in _CONVERSIONS:
        return ()
    positions = [_WEIGHT[node.op_type]] if node.op_type in _WEIGHT else range(len(node.input))
    found = []
    for position in positions:
        tensor = _constant(node.input[position], names) if node.input[position] else None
        if tensor is None or tensor.data_type not in (*_BYTE, *_REAL):
            continue
        if node.op_type in _WEIGHT or sum(size > 1 for size in tensor.dims) > 1:
            size = math.prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            found.append(Weight(tensor.name, size, tensor.data_type in _BYTE))
    return tuple(found)
