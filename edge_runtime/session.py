"""A model file with its contract, ready to answer: float in, float out, whatever the file stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime import contract as contracts
from edge_runtime.contract import Contract, InputContract, OutputContract
from edge_runtime.engines import open_engine
from edge_runtime.engines.checks import fits
from edge_runtime.engines.protocol import Array, Engine, TensorInfo
from edge_runtime.errors import ContractError
from edge_runtime.nearest import suggestion
from edge_runtime.preprocess import arrange, preprocess
from edge_runtime.quantization import Quantization, dequantize, of_tensor, quantize

Values = NDArray[np.float32]


class Session:
    """Checks, quantizes, runs, dequantizes. Arrays come and go in the order of the contract's inputs and outputs."""

    def __init__(self, engine: Engine, contract: Contract) -> None:
        """Raises ContractError when file and contract disagree, ModelFileError when an integer tensor has no scale."""
        self.engine = engine
        self.contract = contract
        self._input_order = _match("input", contract.inputs, engine.inputs)
        self._output_order = _match("output", contract.outputs, engine.outputs)
        self._input_quantization = [of_tensor(tensor) for tensor in engine.inputs]
        self._output_quantization = [of_tensor(tensor) for tensor in engine.outputs]

    def predict(self, inputs: Sequence[NDArray[Any]]) -> list[Values]:
        """Answers one batch.

        Args:
            inputs: real values, float32, one array per input of the contract, in its shape and layout; integer arrays
                for inputs that hold indices (int32, int64).

        Returns:
            Real values, float32, one new array per output of the contract (indices keep their integer type).

        Raises:
            ContractError: an array has another shape, layout or dtype, or holds NaN or infinity.
            EngineError: the engine failed.
        """
        return self.dequantize(self.engine.run(self.quantize(inputs)))

    def quantize(self, inputs: Sequence[NDArray[Any]]) -> list[Array]:
        """Real values, as `predict` takes them, as the arrays that `engine.run` takes."""
        if len(inputs) != len(self.contract.inputs):
            names = ", ".join(spec.name for spec in self.contract.inputs)
            raise ContractError(f"the model takes {len(self.contract.inputs)} inputs ({names}), got {len(inputs)}")
        arrays: list[Array] = [np.empty(0)] * len(inputs)
        for spec, position, values in zip(self.contract.inputs, self._input_order, inputs, strict=True):
            arrays[position] = _stored(spec, self._input_quantization[position], values)
        return arrays

    def dequantize(self, outputs: Sequence[Array]) -> list[Values]:
        """What `engine.run` gave, as real values in the contract's order."""
        answers: list[Any] = []
        for position in self._output_order:
            stored, quantization = outputs[position], self._output_quantization[position]
            answers.append(stored if quantization is None else dequantize(stored, quantization))
        return answers

    def prepare(self, image: NDArray[np.uint8], index: int = 0) -> Values:
        """A decoded image, uint8 (H, W, 3) RGB or (H, W, 1) grey, as the array that `predict` takes, batch 1.

        Raises ContractError when input `index` of the contract is no image, or takes more than one at a time.
        """
        spec = self.contract.inputs[index]
        if spec.preprocess is None:
            raise ContractError(f"input '{spec.name}' takes no image: its contract has no `preprocess`")
        if spec.shape[0] != 1:
            raise ContractError(f"input '{spec.name}' takes batches of {spec.shape[0]} images, not one")
        return arrange(preprocess(image, spec.preprocess)[None], spec.layout)


def open_session(
    model_path: str | Path, engine: str | None = None, threads: int = 1, contract: Contract | None = None
) -> Session:
    """Loads a model file and checks it against its contract.

    Args:
        engine: name of an engine; the default follows the file's suffix.
        threads: threads inside the engine, at least 1.
        contract: the default is read from `<stem>.contract.json` beside the file.

    Raises:
        ModelFileError, EngineError: as `engines.open_engine`.
        ContractError: the contract is missing or malformed, or names, shapes or dtypes differ from the file's.
    """
    opened = open_engine(model_path, engine, threads)
    try:
        return Session(opened, contract or contracts.load(contracts.contract_path(model_path)))
    except ContractError as error:
        raise ContractError(f"{Path(model_path).name}: {error}") from error


def _match(kind: str, specs: Sequence[InputContract | OutputContract], tensors: Sequence[TensorInfo]) -> list[int]:
    """For each tensor of the contract, its position in the file."""
    positions = {tensor.name: index for index, tensor in enumerate(tensors)}
    for spec in specs:
        if spec.name not in positions:
            raise ContractError(
                f"the contract has {kind} '{spec.name}', the file does not{suggestion(spec.name, positions)}"
            )
        tensor = tensors[positions[spec.name]]
        if not fits(spec.shape, tensor.shape):
            raise ContractError(
                f"{kind} '{spec.name}' has shape {spec.shape} in the contract, {tensor.shape} in the file"
            )
        if spec.dtype != tensor.dtype:
            raise ContractError(f"{kind} '{spec.name}' is {spec.dtype} in the contract, {tensor.dtype} in the file")
    missing = positions.keys() - {spec.name for spec in specs}
    if missing:
        raise ContractError(f"the file has {kind} '{min(missing)}', which the contract does not mention")
    return [positions[spec.name] for spec in specs]


def _stored(spec: InputContract, quantization: Quantization | None, values: NDArray[Any]) -> Array:
    expected = spec.dtype if quantization is None else "float32"
    if not isinstance(values, np.ndarray) or values.dtype != expected:
        got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        hint = "; `prepare` makes one from an image" if spec.preprocess is not None else ""
        raise ContractError(f"input '{spec.name}' takes {expected} values, got {got}{hint}")
    if values.shape != spec.shape:
        raise ContractError(
            f"input '{spec.name}' takes shape {spec.shape} ({spec.layout}), got {values.shape}{_why(spec, values)}"
        )
    if quantization is not None:
        return quantize(values, quantization)
    if expected == "float32" and not np.isfinite(values).all():
        raise ContractError(f"input '{spec.name}' holds NaN or infinite values")
    return values


def _why(spec: InputContract, values: NDArray[Any]) -> str:
    """The likely mistake behind a wrong shape, as the tail of the message."""
    if values.shape == spec.shape[1:]:
        return "; the batch dimension is missing"
    if values.ndim == 4 and spec.layout != "ND":
        other, order = ("NCHW", (0, 2, 3, 1)) if spec.layout == "NHWC" else ("NHWC", (0, 3, 1, 2))
        if tuple(values.shape[axis] for axis in order) == spec.shape:
            return f"; this looks like {other}"
    return ""
