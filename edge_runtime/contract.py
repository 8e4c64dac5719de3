"""The interface of a model, machine-readable, shipped beside the model file.

`model.tflite` comes with `model.contract.json`. The contract says what has to be fed (shape, dtype, layout,
colour order, resize rule, mean, standard deviation) and what comes out (decoder, labels), so that training,
calibration, evaluation and the device share one preprocessing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge_runtime.errors import ContractError
from edge_runtime.files import write_atomically
from edge_runtime.strict_json import StrictJsonError, decode, encode

CONTRACT_VERSION = 1

DType = Literal["float32", "int8", "uint8", "int32", "int64"]
Layout = Literal["NHWC", "NCHW", "ND"]
ColorOrder = Literal["RGB", "BGR", "GRAY"]
Resize = Literal["none", "stretch", "center-crop", "letterbox"]
Decoder = Literal["logits"]


@dataclass(frozen=True)
class ImagePreprocess:
    """From a decoded image (H, W, C), uint8, to what the network was trained on.

    `value = (pixel / divide_by - mean[c]) / std[c]`, after the resize rule brought the image to height x width.
    """

    height: int
    width: int
    color_order: ColorOrder
    resize: Resize
    mean: tuple[float, ...]
    std: tuple[float, ...]
    divide_by: float = 255.0

    @property
    def channels(self) -> int:
        return 1 if self.color_order == "GRAY" else 3


@dataclass(frozen=True)
class InputContract:
    """One input of the file. `shape` includes the batch dimension, in the order of `layout`."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    layout: Layout
    preprocess: ImagePreprocess | None = None


@dataclass(frozen=True)
class OutputContract:
    """One output of the file, and how its numbers become an answer."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    decoder: Decoder


@dataclass(frozen=True)
class Contract:
    """What a model takes and gives. Precision does not change it, except for the dtypes of inputs and outputs."""

    task: str
    inputs: tuple[InputContract, ...]
    outputs: tuple[OutputContract, ...]
    labels: tuple[str, ...]
    version: int = CONTRACT_VERSION


def contract_path(model: str | Path) -> Path:
    """Where the contract of a model file lies: `model.tflite` has `model.contract.json` beside it."""
    return Path(model).with_suffix(".contract.json")


def to_json(contract: Contract) -> dict[str, Any]:
    """The contract as plain JSON data, keys in the order of the fields."""
    data: dict[str, Any] = encode(contract)
    return data


def from_json(data: Any) -> Contract:
    """The contract in JSON data as `to_json` gives it.

    Raises:
        ContractError: the version is another, a key is unknown, missing or of the wrong type, or the values
            contradict each other; the message names the key.
    """
    version = data.get("version", CONTRACT_VERSION) if isinstance(data, dict) else CONTRACT_VERSION
    if version != CONTRACT_VERSION:
        raise ContractError(f"version: this runtime reads contract version {CONTRACT_VERSION}, got {version!r}")
    try:
        contract = decode(Contract, data)
    except StrictJsonError as error:
        raise ContractError(str(error)) from error
    check(contract)
    return contract


def save(contract: Contract, path: str | Path) -> None:
    """Writes JSON, atomically. Raises ContractError when the contract contradicts itself, OSError from the disk."""
    check(contract)
    text = json.dumps(to_json(contract), indent=2, ensure_ascii=False) + "\n"
    write_atomically(Path(path), text.encode())


def load(path: str | Path) -> Contract:
    """Reads a contract file. Raises ContractError, with the file's name, when it is missing or not a contract."""
    path = Path(path)
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ContractError(f"no contract at {path}: it has to lie beside the model file") from error
    except (OSError, ValueError) as error:
        raise ContractError(f"{path} is not a contract: {error}") from error
    try:
        return from_json(data)
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from error


def check(contract: Contract) -> None:
    """Raises ContractError when the parts of a contract contradict each other; the message names the key."""
    if not contract.inputs or not contract.outputs:
        raise ContractError("a contract needs at least one input and one output")
    _check_tensors("inputs", contract.inputs)
    _check_tensors("outputs", contract.outputs)
    for index, tensor in enumerate(contract.inputs):
        if tensor.preprocess is not None:
            _check_image(tensor, tensor.preprocess, f"inputs[{index}]")


def _check_tensors(kind: str, tensors: Sequence[InputContract | OutputContract]) -> None:
    names = [tensor.name for tensor in tensors]
    for index, tensor in enumerate(tensors):
        where = f"{kind}[{index}]"
        if names.count(tensor.name) > 1:
            raise ContractError(f"{where}.name: '{tensor.name}' is given twice")
        if not tensor.shape or any(size < 1 for size in tensor.shape):
            raise ContractError(f"{where}.shape: sizes must be at least 1, got {list(tensor.shape)}")


def _check_image(tensor: InputContract, spec: ImagePreprocess, where: str) -> None:
    where_spec = f"{where}.preprocess"
    for key, values in (("mean", spec.mean), ("std", spec.std)):
        if len(values) != spec.channels:
            raise ContractError(
                f"{where_spec}.{key}: {spec.color_order} needs {spec.channels} values, got {len(values)}"
            )
        if not all(math.isfinite(value) for value in values):
            raise ContractError(f"{where_spec}.{key}: values must be finite, got {list(values)}")
    if any(value <= 0 for value in spec.std):
        raise ContractError(f"{where_spec}.std: values must be above 0, got {list(spec.std)}")
    if not (math.isfinite(spec.divide_by) and spec.divide_by > 0):
        raise ContractError(f"{where_spec}.divide_by: must be above 0, got {spec.divide_by}")
    hwc = (spec.height, spec.width, spec.channels)
    expected = hwc if tensor.layout == "NHWC" else (hwc[2], hwc[0], hwc[1])
    if tensor.layout == "ND" or tensor.shape[1:] != expected:
        raise ContractError(
            f"{where}.shape: an image of height {hwc[0]}, width {hwc[1]} and {hwc[2]} channels in {tensor.layout} "
            f"is (batch, {', '.join(map(str, expected))}), got {list(tensor.shape)}"
        )
