"""Tiny model files made on the spot, whose answers are known: logits = flattened image @ WEIGHT.T + BIAS."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime import contract as contracts
from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract

HEIGHT, WIDTH, CHANNELS, CLASSES = 4, 4, 3, 3
SHAPE = (1, HEIGHT, WIDTH, CHANNELS)
FEATURES = HEIGHT * WIDTH * CHANNELS
WEIGHT = np.random.default_rng(0).integers(-127, 128, (CLASSES, FEATURES)).astype(np.float32) / 127
BIAS = np.array([0.5, -0.25, 0.0], dtype=np.float32)
INPUT_SCALE, INPUT_ZERO_POINT = 1 / 64, 3
OUTPUT_SCALE, OUTPUT_ZERO_POINT = 0.125, -5

PREPROCESS = ImagePreprocess(HEIGHT, WIDTH, "RGB", "stretch", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def expected(inputs: np.ndarray) -> np.ndarray:
    """The float answer (1, CLASSES)."""
    return inputs.reshape(1, -1) @ WEIGHT.T + BIAS


def contract(input_name: str, output_name: str, dtype: Any = "float32") -> Contract:
    return Contract(
        task="image-classification",
        inputs=(InputContract(input_name, SHAPE, dtype, "NHWC", PREPROCESS),),
        outputs=(OutputContract(output_name, (1, CLASSES), dtype, "logits"),),
        labels=("cat", "dog", "owl"),
    )


@dataclass(frozen=True)
class Quantized:
    """Scale and zero point of the interface of an INT8 file; the defaults are sound."""

    dtype: str = "int8"
    input_scale: float = INPUT_SCALE
    input_zero_point: int = INPUT_ZERO_POINT
    output_scale: float = OUTPUT_SCALE
    output_zero_point: int = OUTPUT_ZERO_POINT


def write_tflite(
    path: Path,
    quantized: Quantized | None = None,
    signature: bool = True,
    with_contract: bool = True,
    replace_contract: dict[str, Any] | None = None,
) -> Path:
    """A fully connected layer, float or INT8 (with `quantized`), named by a signature (`args_0`, `output_0`)."""
    path.write_bytes(_tflite(quantized, signature))
    if with_contract:
        names = ("args_0", "output_0") if signature else ("x", "y")
        made = contract(*names, "float32" if quantized is None else quantized.dtype)
        contracts.save(replace(made, **(replace_contract or {})), contracts.contract_path(path))
    return path


def _tflite(quantized: Quantized | None, signature: bool) -> bytes:
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    types = schema.TensorType
    if quantized is None:
        constants = [WEIGHT, BIAS]
        stored = [types.FLOAT32, types.FLOAT32, types.FLOAT32, types.FLOAT32]
        scales: list[tuple[float, int] | None] = [None, None, None, None]
    else:
        q = quantized
        bias_scale = q.input_scale / 127
        safe_scale = bias_scale if np.isfinite(bias_scale) and bias_scale > 0 else 1.0
        constants = [np.round(WEIGHT * 127).astype(np.int8), np.round(BIAS / safe_scale).astype(np.int32)]
        stored = [types.INT8, types.INT8, types.INT32, types.INT8]
        scales = [
            (q.input_scale, q.input_zero_point),
            (1 / 127, 0),
            (bias_scale, 0),
            (q.output_scale, q.output_zero_point),
        ]
    graph = schema.SubGraphT()
    shapes = [SHAPE, (CLASSES, FEATURES), (CLASSES,), (1, CLASSES)]
    graph.tensors = [
        _tensor(schema, name, shape, kind, buffer, scale)
        for name, shape, kind, buffer, scale in zip("xwby", shapes, stored, (0, 1, 2, 0), scales, strict=True)
    ]
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0, 1, 2], [3]
    operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = schema.FullyConnectedOptionsT()
    graph.operators, graph.inputs, graph.outputs, graph.name = [operator], [0], [3], b"main"
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 1 if quantized is None else 4
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT(), *(_buffer(schema, values) for values in constants)]
    if signature:
        model.signatureDefs = [_signature(schema, {"args_0": 0}, {"output_0": 3})]
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _tensor(schema: Any, name: str, shape: Any, kind: int, buffer: int, scale: tuple[float, int] | None) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.type, tensor.buffer = name.encode(), kind, buffer
    tensor.shape = np.array(shape, dtype=np.int32)
    if scale is not None:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.array([scale[0]], dtype=np.float32)
        tensor.quantization.zeroPoint = np.array([scale[1]], dtype=np.int64)
    return tensor


def _buffer(schema: Any, values: np.ndarray) -> Any:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.tobytes(), dtype=np.uint8)
    return buffer


def _signature(schema: Any, inputs: dict[str, int], outputs: dict[str, int]) -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
    for attribute, entries in (("inputs", inputs), ("outputs", outputs)):
        maps = []
        for name, index in entries.items():
            entry = schema.TensorMapT()
            entry.name, entry.tensorIndex = name.encode(), index
            maps.append(entry)
        setattr(signature, attribute, maps)
    return signature


def write_onnx(
    path: Path,
    quantized: Quantized | None = None,
    metadata: dict[str, Any] | str | None = None,
    with_contract: bool = True,
    replace_contract: dict[str, Any] | None = None,
) -> Path:
    """The same layer; with `quantized` its interface is int8 or uint8, described in the file's metadata.

    `metadata` overrides the description: a document, a text that is none, or `""` for no entry at all.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    float_nodes = [
        helper.make_node("Flatten", ["x_real"], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y_real"], transB=1),
    ]
    initializers = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(BIAS, "b")]
    kind = TensorProto.FLOAT
    if quantized is None:
        nodes = [helper.make_node("Identity", ["x"], ["x_real"]), *float_nodes]
        nodes.append(helper.make_node("Identity", ["y_real"], ["y"]))
    else:
        q, dtype = quantized, np.dtype(quantized.dtype)
        kind = TensorProto.INT8 if q.dtype == "int8" else TensorProto.UINT8
        nodes = [helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["x_real"]), *float_nodes]
        nodes.append(helper.make_node("QuantizeLinear", ["y_real", "y_scale", "y_zero"], ["y"]))
        initializers += [
            numpy_helper.from_array(np.array(q.input_scale, dtype=np.float32), "x_scale"),
            numpy_helper.from_array(np.array(q.input_zero_point, dtype=dtype), "x_zero"),
            numpy_helper.from_array(np.array(q.output_scale, dtype=np.float32), "y_scale"),
            numpy_helper.from_array(np.array(q.output_zero_point, dtype=dtype), "y_zero"),
        ]
        if metadata is None:
            metadata = {
                "inputs": {"x": {"scale": q.input_scale, "zero_point": q.input_zero_point}},
                "outputs": {"y": {"scale": q.output_scale, "zero_point": q.output_zero_point}},
            }
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", kind, SHAPE)],
        [helper.make_tensor_value_info("y", kind, (1, CLASSES))],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if metadata:
        text = metadata if isinstance(metadata, str) else json.dumps(metadata)
        helper.set_model_props(model, {"author": "tests", "edgepress.quantization": text})
    onnx.save(model, path)
    if with_contract:
        made = contract("x", "y", "float32" if quantized is None else quantized.dtype)
        contracts.save(replace(made, **(replace_contract or {})), contracts.contract_path(path))
    return path
