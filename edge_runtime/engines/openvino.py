"""OpenVINO on the CPU: runs the same `.onnx` files as ONNX Runtime."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from edge_runtime.engines.checks import check_arrays, existing, one_line
from edge_runtime.engines.onnx_file import quantized, read_metadata
from edge_runtime.engines.protocol import Array, Engine, TensorInfo
from edge_runtime.engines.signal_stack import signal_stack_kept
from edge_runtime.errors import EngineError, ModelFileError


def _import_without_telemetry() -> ModuleType:
    """OpenVINO, with its telemetry package hidden: its converter then takes the stub that sends nothing."""
    name = "openvino_telemetry"
    loaded = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # makes `import openvino_telemetry` raise ImportError
    try:
        import openvino

        return openvino
    finally:
        if loaded is None:
            del sys.modules[name]
        else:
            sys.modules[name] = loaded


ov = _import_without_telemetry()


class OpenVINO:
    """A loaded `.onnx` file on the CPU plugin: float in float32, one stream, tuned for latency."""

    name = "openvino"
    delegate = "cpu"

    def __init__(self, path: Path, threads: int, version: str) -> None:
        metadata = read_metadata(path)
        core = ov.Core()
        try:
            model = core.read_model(str(path))
            inputs = tuple(_tensor(port) for port in model.inputs)
            outputs = tuple(_tensor(port) for port in model.outputs)
            # Before the compilation: it stops at a scale of zero too, but speaks of neither scale nor tensor.
            self.inputs, self.outputs = quantized(path, metadata, inputs, outputs)
            with signal_stack_kept():
                self._request = core.compile_model(model, "CPU", _options(threads)).create_infer_request()
        except RuntimeError as error:
            raise ModelFileError(f"OpenVINO refused {path}: {one_line(error)}") from error
        self.version = version
        self.threads = threads

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Set, invoke, get. Raises ContractError for a wrong shape or dtype, EngineError when an operator fails."""
        check_arrays(self.inputs, arrays)
        request = self._request
        try:
            # Memory is shared and not copied: a contiguous copy of strided input has to live until `infer` is done.
            shared = [np.ascontiguousarray(array) for array in arrays]
            for index, array in enumerate(shared):
                request.set_input_tensor(index, ov.Tensor(array, shared_memory=True))
            request.infer()
        except RuntimeError as error:
            raise EngineError(f"openvino failed while running the model: {one_line(error)}") from error
        return [request.get_output_tensor(index).data.copy() for index in range(len(self.outputs))]


def open_model(path: str | Path, threads: int, version: str) -> Engine:
    return OpenVINO(existing(path), threads, version)


def _options(threads: int) -> dict[str, Any]:
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else bf16 on processors that have it, and the numbers would differ
        "ENABLE_CPU_PINNING": False,
    }


def _tensor(port: Any) -> TensorInfo:
    shape = tuple(size.get_length() if size.is_static else -1 for size in port.get_partial_shape())
    names = port.get_names()
    name = port.get_any_name() if names else port.get_node().get_friendly_name()
    return TensorInfo(name, shape, np.dtype(port.get_element_type().to_dtype()).name)
