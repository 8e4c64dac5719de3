"""LiteRT (TensorFlow Lite): runs `.tflite` files, through XNNPACK where it takes the operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from edge_runtime.engines.checks import check_arrays, existing, one_line
from edge_runtime.engines.protocol import Array, Engine, TensorInfo
from edge_runtime.errors import EngineError, ModelFileError
from edge_runtime.quantization import QUANTIZED, checked


class LiteRT:
    """A loaded `.tflite` file. Not thread-safe: one interpreter, one thread at a time."""

    name = "litert"

    def __init__(self, path: Path, threads: int, version: str, delegate: bool = True) -> None:
        """`delegate=False` computes with the built-in kernels, for comparisons; their numbers differ from XNNPACK's."""
        resolver = litert.OpResolverType.AUTO if delegate else litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        try:
            self._interpreter = litert.Interpreter(
                model_path=str(path), num_threads=threads, experimental_op_resolver_type=resolver
            )
            inputs = _named(self._interpreter, "inputs", self._interpreter.get_input_details())
            outputs = _named(self._interpreter, "outputs", self._interpreter.get_output_details())
            # Before the allocation: XNNPACK stops at a scale of zero too, but speaks of tensor numbers.
            self.inputs = tuple(_tensor(name, detail) for name, detail in inputs)
            self.outputs = tuple(_tensor(name, detail) for name, detail in outputs)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelFileError(f"{path} is damaged or not a TFLite model: {one_line(error)}") from error
        self.version = version
        self.threads = threads
        self._input_indices = tuple(detail["index"] for _, detail in inputs)
        self._output_indices = tuple(detail["index"] for _, detail in outputs)
        self.delegate = _delegate(self._interpreter)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Set, invoke, get. Raises ContractError for a wrong shape or dtype, EngineError when an operator fails."""
        check_arrays(self.inputs, arrays)
        interpreter = self._interpreter
        for index, array in zip(self._input_indices, arrays, strict=True):
            interpreter.set_tensor(index, array)
        try:
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"litert failed while running the model: {one_line(error)}") from error
        return [interpreter.get_tensor(index) for index in self._output_indices]


def open_model(path: str | Path, threads: int, version: str) -> Engine:
    return LiteRT(existing(path), threads, version)


def _named(interpreter: Any, kind: str, details: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Inputs or outputs with their public names: those of the file's only signature, else the tensors' own."""
    signatures = interpreter.get_signature_list()
    if len(signatures) != 1:
        return [(detail["name"], detail) for detail in details]
    runner = interpreter.get_signature_runner(next(iter(signatures)))
    by_name = runner.get_input_details() if kind == "inputs" else runner.get_output_details()
    names = {detail["index"]: name for name, detail in by_name.items()}
    return [(names.get(detail["index"], detail["name"]), detail) for detail in details]


def _tensor(name: str, detail: dict[str, Any]) -> TensorInfo:
    dtype = np.dtype(detail["dtype"]).name
    shape = tuple(int(size) for size in detail["shape"])
    parameters = detail["quantization_parameters"]
    scales, zero_points = parameters["scales"], parameters["zero_points"]
    if dtype not in QUANTIZED or len(scales) == 0:
        return TensorInfo(name, shape, dtype)
    if len(scales) != 1:
        raise ModelFileError(f"'{name}' has {len(scales)} scales; inputs and outputs need one for the whole tensor")
    quantization = checked(name, dtype, float(scales[0]), int(zero_points[0]))
    return TensorInfo(name, shape, dtype, quantization.scale, quantization.zero_point)


def _delegate(interpreter: Any) -> str:
    """`xnnpack` when the default delegate took operators, else `builtin`.

    The interpreter has no public call for this. Delegated regions are listed as operators named DELEGATE (older
    releases: by the delegate's class), and XNNPACK is the only one that is applied without being asked for.
    """
    names = [operator["op_name"] for operator in interpreter._get_ops_details()]
    return "xnnpack" if any(name == "DELEGATE" or "XNNPack" in name for name in names) else "builtin"
