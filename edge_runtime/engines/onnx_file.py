"""Reads the metadata of an ONNX file without the onnx package: a protobuf reader of what is needed, and no more.

Scale and zero point of quantized inputs and outputs are not part of an ONNX interface, so the exporter writes them
into the file's `metadata_props` under `edgepress.quantization`:

    {"inputs": {"x": {"scale": 0.0078, "zero_point": 0}}, "outputs": {"y": {"scale": 0.1, "zero_point": -3}}}
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge_runtime.engines.protocol import TensorInfo
from edge_runtime.errors import ModelFileError
from edge_runtime.quantization import QUANTIZED, checked

QUANTIZATION_KEY = "edgepress.quantization"

# Field numbers of onnx.ModelProto and onnx.StringStringEntryProto, and protobuf's wire types.
_GRAPH, _OPSET_IMPORT, _METADATA_PROPS = 7, 8, 14
_KEY, _VALUE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_metadata(path: Path) -> dict[str, str]:
    """`metadata_props` of the file. The weights are skipped, not read.

    Raises ModelFileError when the file is not a complete ONNX model: garbage, truncated, without graph or opset.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            fields = [
                (number, content[start:end] if number == _METADATA_PROPS else b"")
                for number, start, end in _fields(content, 0, len(content))
            ]
            metadata = dict(_entry(entry) for number, entry in fields if number == _METADATA_PROPS)
        except (ValueError, IndexError) as error:
            raise ModelFileError(f"{path} is damaged or not an ONNX model: {error}") from error
    numbers = {number for number, _ in fields}
    for number, part in ((_GRAPH, "graph"), (_OPSET_IMPORT, "operator set")):
        if number not in numbers:
            raise ModelFileError(f"{path} is damaged or not an ONNX model: it holds no {part}")
    return metadata


def quantized(
    path: Path, metadata: dict[str, str], inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Inputs and outputs with the scales and zero points that the metadata holds for them.

    Raises ModelFileError when the entry is malformed, names a tensor that is none, or holds a scale of zero.
    """
    text = metadata.get(QUANTIZATION_KEY)
    if text is None:
        return inputs, outputs
    try:
        entry = json.loads(text)
        if not isinstance(entry, dict) or not set(entry) <= {"inputs", "outputs"}:
            raise ValueError("expected an object with `inputs` and `outputs`")
        return _apply(entry.get("inputs", {}), inputs), _apply(entry.get("outputs", {}), outputs)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path}: metadata '{QUANTIZATION_KEY}' is malformed: {error}") from error


def _apply(entries: dict[str, dict[str, Any]], tensors: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
    known = {tensor.name for tensor in tensors if tensor.dtype in QUANTIZED}
    for name in entries:
        if name not in known:
            raise ValueError(f"'{name}' is not an int8 or uint8 tensor of the interface")
    result = []
    for tensor in tensors:
        if tensor.name in entries:
            entry = entries[tensor.name]
            values = checked(tensor.name, tensor.dtype, float(entry["scale"]), int(entry["zero_point"]))
            tensor = TensorInfo(tensor.name, tensor.shape, tensor.dtype, values.scale, values.zero_point)
        result.append(tensor)
    return tuple(result)


def _entry(content: bytes) -> tuple[str, str]:
    parts = {number: content[start:end].decode() for number, start, end in _fields(content, 0, len(content))}
    return parts.get(_KEY, ""), parts.get(_VALUE, "")


def _fields(content: bytes | mmap.mmap, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of every field of a message; the end lies inside the message, or ValueError."""
    while start < stop:
        tag, start = _varint(content, start)
        wire = tag & 7
        if wire == _VARINT:
            _, end = _varint(content, start)
        elif wire == _BYTES:
            length, start = _varint(content, start)
            end = start + length
        elif wire in (_FIXED64, _FIXED32):
            end = start + (8 if wire == _FIXED64 else 4)
        else:
            raise ValueError(f"unknown field type {wire} at byte {start}")
        if end > stop:
            raise ValueError(f"truncated: {end - stop} bytes are missing at the end")
        yield tag >> 3, start, end
        start = end


def _varint(content: bytes | mmap.mmap, start: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, start
    raise ValueError(f"not a protobuf number at byte {start}")
