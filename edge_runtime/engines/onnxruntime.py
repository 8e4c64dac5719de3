"""ONNX Runtime on the CPU: runs `.onnx` files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from edge_runtime.engines.checks import check_arrays, existing, one_line
from edge_runtime.engines.onnx_file import quantized, read_metadata
from edge_runtime.engines.protocol import Array, Engine, TensorInfo
from edge_runtime.errors import EngineError, ModelFileError

# Builds of the package for some systems report usage; none of ours does.
onnxruntime.disable_telemetry_events()

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}


class OnnxRuntime:
    """A loaded `.onnx` file on the CPU provider, with deterministic kernels."""

    name = "onnxruntime"
    delegate = "cpu"

    def __init__(self, path: Path, threads: int, version: str) -> None:
        metadata = read_metadata(path)
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), sess_options=_options(threads), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the package raises classes of its own native module, one per status
            raise ModelFileError(f"ONNX Runtime refused {path}: {one_line(error)}") from error
        self.version = version
        self.threads = threads
        inputs = tuple(_tensor(node) for node in self._session.get_inputs())
        outputs = tuple(_tensor(node) for node in self._session.get_outputs())
        self.inputs, self.outputs = quantized(path, metadata, inputs, outputs)
        self._input_names = tuple(tensor.name for tensor in inputs)
        self._output_names = [tensor.name for tensor in outputs]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Set, invoke, get. Raises ContractError for a wrong shape or dtype, EngineError when an operator fails."""
        check_arrays(self.inputs, arrays)
        try:
            results: list[Array] = self._session.run(
                self._output_names, dict(zip(self._input_names, arrays, strict=True))
            )
        except Exception as error:  # as above
            raise EngineError(f"onnxruntime failed while running the model: {one_line(error)}") from error
        return results


def open_model(path: str | Path, threads: int, version: str) -> Engine:
    return OnnxRuntime(existing(path), threads, version)


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    # Waiting threads that spin take time from whatever runs next: another engine, a camera's decoder.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads == 1 else "1")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def _tensor(node: Any) -> TensorInfo:
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in node.shape)
    return TensorInfo(node.name, shape, _DTYPES.get(node.type, node.type))
