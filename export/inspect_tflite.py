"""Reads a TFLite file as a graph of operators, through the flatbuffer schema that comes with LiteRT."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from export.graph import Domain, Graph, Operator, Weight

_KINDS = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
_TYPE = schema.TensorType
_BYTE = (_TYPE.INT8, _TYPE.UINT8)
_REAL = (_TYPE.FLOAT32, _TYPE.FLOAT16)
_BYTES = {_TYPE.FLOAT32: 4, _TYPE.FLOAT16: 2, _TYPE.INT8: 1, _TYPE.UINT8: 1}
_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE"}
# Positions of the weight and the data among the inputs; TRANSPOSE_CONV has the output shape first.
_OPERANDS = {
    "CONV_2D": (1, 0),
    "DEPTHWISE_CONV_2D": (1, 0),
    "CONV_3D": (1, 0),
    "FULLY_CONNECTED": (1, 0),
    "BATCH_MATMUL": (1, 0),
    "TRANSPOSE_CONV": (1, 2),
}


class _File:
    """The first subgraph of a parsed file, with what is asked about its tensors."""

    def __init__(self, content: bytes) -> None:
        self.model = schema.ModelT.InitFromPackedBuf(content, 0)
        self.graph = self.model.subgraphs[0]
        self.tensors: list[Any] = self.graph.tensors

    def kind(self, operator: Any) -> str:
        code = self.model.operatorCodes[operator.opcodeIndex]
        # Old files keep the code in the deprecated 8-bit field.
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        custom = code.customCode.decode() if code.customCode else "CUSTOM"
        return custom if number == schema.BuiltinOperator.CUSTOM else _KINDS[number]

    def name(self, index: int) -> str:
        # Names may repeat; the index does not.
        return f"{self.tensors[index].name.decode()}#{index}"

    def shape(self, index: int) -> tuple[int, ...]:
        shape = self.tensors[index].shape
        return tuple(int(size) for size in shape) if shape is not None else ()

    def stored(self, index: int) -> int | None:
        """The tensor that holds the constant behind `index`, itself or what a DEQUANTIZE expands; else None."""
        if self._has_data(index):
            return index
        source = self._expanded.get(index)
        return source if source is not None and self._has_data(source) else None

    @cached_property
    def _expanded(self) -> dict[int, int]:
        return {
            int(operator.outputs[0]): int(operator.inputs[0])
            for operator in self.graph.operators
            if self.kind(operator) == "DEQUANTIZE"
        }

    def _has_data(self, index: int) -> bool:
        buffer = self.model.buffers[self.tensors[index].buffer]
        return (buffer.data is not None and len(buffer.data) > 0) or buffer.offset > 1


def read_tflite(path: str) -> Graph:
    """The operators of a TFLite file's main subgraph. Raises what the flatbuffer reader raises when it is none."""
    return graph_of(Path(path).read_bytes())


def graph_of(content: bytes) -> Graph:
    """The operators of a serialized model."""
    file = _File(content)
    return Graph(tuple(_operator(operator, file) for operator in file.graph.operators))


def _operator(operator: Any, file: _File) -> Operator:
    kind = file.kind(operator)
    inputs = [int(index) for index in operator.inputs if index >= 0]
    outputs = [int(index) for index in operator.outputs]
    return Operator(
        kind=kind,
        name=f"{kind} {file.name(outputs[0])}" if outputs else kind,
        reads=tuple(file.name(index) for index in inputs if file.stored(index) is None),
        writes=tuple(file.name(index) for index in outputs),
        domain=_domain(kind, inputs, outputs, file),
        macs=_macs(kind, inputs, outputs, file),
        weights=_weights(kind, inputs, file),
    )


def _domain(kind: str, inputs: list[int], outputs: list[int], file: _File) -> Domain:
    if kind in _CONVERSIONS:
        return "convert"
    results = {file.tensors[index].type for index in outputs}
    if kind in _OPERANDS and file.tensors[inputs[_OPERANDS[kind][0]]].type in _BYTE:
        return "int8"  # with float activations the kernel quantizes them while running
    if results & set(_BYTE):
        return "int8"
    return "float" if results & set(_REAL) else "other"


def _macs(kind: str, inputs: list[int], outputs: list[int], file: _File) -> int:
    if kind not in _OPERANDS:
        return 0
    weight, data = (file.shape(inputs[position]) for position in _OPERANDS[kind])
    output = math.prod(file.shape(outputs[0]))
    if kind == "DEPTHWISE_CONV_2D":
        return output * math.prod(weight[1:3])
    if kind == "TRANSPOSE_CONV":
        return math.prod(data) * math.prod(weight[:3])
    if kind == "BATCH_MATMUL":
        return output * data[-1]
    return output * math.prod(weight[:4] if kind == "CONV_3D" else weight[1:])


def _weights(kind: str, inputs: list[int], file: _File) -> tuple[Weight, ...]:
    """The weight operand of a multiply-accumulate operator; of others, constants that are more than a vector."""
    if kind in _CONVERSIONS:
        return ()
    operands = [inputs[_OPERANDS[kind][0]]] if kind in _OPERANDS else inputs
    found = []
    for index in operands:
        stored = file.stored(index)
        if stored is None or file.tensors[stored].type not in _BYTES:
            continue
        shape = file.shape(stored)
        if kind in _OPERANDS or sum(size > 1 for size in shape) > 1:
            dtype = file.tensors[stored].type
            found.append(Weight(file.name(stored), math.prod(shape) * _BYTES[dtype], dtype in _BYTE))
    return tuple(found)
