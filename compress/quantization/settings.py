"""The keys of the quantize stage. Imports no framework."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from compress.distillation.settings import DistillationSettings
from compress.recipe.types import Boolean, Fraction, PositiveFloat, PositiveInt
from compress.training.settings import TrainingSettings


class QuantizeKeys(TrainingSettings, DistillationSettings):
    """Training with fake quantization: all keys of training, with a small learning rate, and how ranges are found."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    learning_rate: PositiveFloat = Field(1e-4, description="peak learning rate; small, the network is trained already")
    calibration: PositiveInt = Field(256, description="samples of the calibration split that the first ranges are from")
    freeze_ranges: Fraction = Field(0.5, description="share of the steps after which ranges no longer move")
    weight_bits: Literal["auto", 7, 8] = Field(
        "auto", description="auto: 7 where 8 would saturate in the target's ONNX kernels (x86 without VNNI), else 8"
    )
    distill: Boolean = Field(False, description="the float parent teaches, with the keys of distillation")
    require: Literal["better_than_ptq"] | None = Field(
        None, description="better_than_ptq: without a gain on validation over quantization without training, exit 4"
    )
