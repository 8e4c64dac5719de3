"""Every value that a TFLite file computes. Without delegates: they keep what they compute in between to themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray

from edge_runtime.quantization import Quantization

_DTYPES = (np.float32, np.int8, np.uint8)


class TfliteTensors:
    """Runs a file sample by sample, and gives its tensors by name, constants included."""

    def __init__(self, content: bytes, threads: int = 1) -> None:
        self._interpreter = Interpreter(
            model_content=content,
            num_threads=threads,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self._interpreter.allocate_tensors()

    def run(self, array: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Tensors of float32 and of 8 bits, as stored. `array` is the input as the file takes it."""
        self._interpreter.set_tensor(self._interpreter.get_input_details()[0]["index"], array)
        self._interpreter.invoke()
        found = {}
        for entry in self._interpreter.get_tensor_details():
            if entry["dtype"] in _DTYPES and entry["name"]:
                try:
                    found[entry["name"]] = self._interpreter.get_tensor(entry["index"])
                except ValueError:  # a tensor that no operator of this graph writes
                    continue
        return found

    def quantizations(self) -> dict[str, Quantization]:
        """Scale and zero point of every tensor of 8 bits that has one of each."""
        found = {}
        for entry in self._interpreter.get_tensor_details():
            parameters = entry["quantization_parameters"]
            if entry["dtype"] in _DTYPES[1:] and len(parameters["scales"]) == 1:
                found[entry["name"]] = Quantization(
                    np.dtype(entry["dtype"]).name, float(parameters["scales"][0]), int(parameters["zero_points"][0])
                )
        return found
