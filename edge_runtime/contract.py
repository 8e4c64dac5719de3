"""The interface of a model, machine-readable, shipped beside the model file.

`model.tflite` comes with `model.contract.json`. The contract says what has to be fed (shape, dtype, layout,
colour order, resize rule, mean, standard deviation) and what comes out (decoder, labels), so that training,
calibration, evaluation and the device share one preprocessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
