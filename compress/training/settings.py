"""The keys of a recipe that say how a network is trained; shared by every stage that trains.

Importing this imports no framework, so that recipes are validated without one.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.recipe.types import Duration, Fraction, Listed, NonNegativeFloat, PositiveFloat, PositiveInt, Text

PrecisionSetting = Literal["auto", "fp32", "bf16", "fp16"]
MemoryFormat = Literal["auto", "channels-last", "contiguous"]

DEFAULT_WEIGHT_DECAY = {"adamw": 1e-2, "sgd": 5e-4}
DEFAULT_WARMUP = {"cosine": 0.05, "one-cycle": 0.3, "constant": 0.0}


class EarlyStopping(BaseModel):
    """Stop when validation has not improved by more than `min_delta` for `patience` epochs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    patience: PositiveInt = Field(description="epochs without improvement before training stops")
    min_delta: NonNegativeFloat = Field(0.0, description="what counts as an improvement of the task's metric")


class TrainingSettings(BaseModel):
    """What one training run needs beside the model and the data. Stages inherit it or hold it as a section.

    `batch_size` samples make one optimizer step; `accumulation: N` walks through them in N micro-batches, which costs
    memory for one of them and gives the gradient of the whole (BatchNorm still sees the micro-batch alone).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    epochs: PositiveInt = Field(description="passes over the train split, at most")
    batch_size: PositiveInt = Field(64, description="samples of one optimizer step")
    learning_rate: PositiveFloat = Field(1e-3, description="peak learning rate")
    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="sgd is used with Nesterov's momentum")
    weight_decay: NonNegativeFloat | None = Field(
        None, description="not applied to biases and normalization; default: 1e-2 for adamw, 5e-4 for sgd"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    schedule: Literal["cosine", "one-cycle", "constant"] = Field("cosine", description="course of the learning rate")
    warmup: Fraction | None = Field(
        None,
        description="share of the steps with a rising learning rate; default: cosine 5%, one-cycle 30%, constant 0",
    )
    accumulation: PositiveInt = Field(1, description="micro-batches of one optimizer step")
    precision: PrecisionSetting = Field(
        "auto", description="auto: fp16 with loss scaling on CUDA, fp32 elsewhere (bf16 is slow on most CPUs)"
    )
    clip_norm: PositiveFloat | None = Field(None, description="largest norm of the gradient")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each target spread over all classes")
    ema: float | None = Field(
        None, gt=0, lt=1, description="decay of a moving average of weights and buffers, which is what is kept"
    )
    early_stopping: EarlyStopping | None = Field(None, description="stop when validation no longer improves")
    keep: Literal["best", "last"] = Field("best", description="weights of the epoch best on validation, or the last")
    freeze: Listed[Text] = Field(
        (), description="module paths, * allowed (layer1, encoder.*.norm): no gradients, BatchNorm in evaluation mode"
    )
    memory_format: MemoryFormat = Field("auto", description="auto: channels-last for networks with 2-D convolutions")
    evaluation_batch_size: PositiveInt = Field(256, description="samples of one step of validation")
    checkpoint_every: Duration = Field(
        60.0, description="time between writes of the full training state inside an epoch; 0 writes after every step"
    )

    @model_validator(mode="after")
    def _micro_batches_hold_a_sample(self) -> Self:
        if self.accumulation > self.batch_size:
            raise ValueError(
                f"accumulation ({self.accumulation}) must not exceed batch_size ({self.batch_size}): "
                "a batch is split into that many micro-batches"
            )
        return self
