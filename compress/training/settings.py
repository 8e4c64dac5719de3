"""The keys of a recipe that say how a network is trained; shared by every stage that trains.

Importing this imports no framework, so that recipes are validated without one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.recipe.types import Fraction

Precision = Literal["auto", "fp32", "bf16", "fp16"]
"""`auto`: fp16 with loss scaling on CUDA, fp32 elsewhere (bf16 autocast is slow on CPUs without AMX)."""


class EarlyStopping(BaseModel):
    """Stop when validation has not improved by more than `min_delta` for `patience` epochs. Saves time, costs none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    patience: int = Field(ge=1)
    min_delta: float = Field(default=0.0, ge=0)


class TrainingSettings(BaseModel):
    """What one training run needs beside the model and the data. Stages inherit it or hold it as a section.

    `batch_size` samples make one optimizer step; `accumulation: N` walks through them in N micro-batches, which costs
    memory for one of them and gives the gradient of the whole (BatchNorm still sees the micro-batch).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    epochs: int = Field(ge=1)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    optimizer: Literal["adamw", "sgd"] = "adamw"
    weight_decay: float | None = Field(default=None, ge=0)
    """Not applied to biases and normalization. Default: 1e-2 for adamw, 5e-4 for sgd."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of sgd (with Nesterov's correction)."""
    schedule: Literal["cosine", "one-cycle", "constant"] = "cosine"
    warmup: Fraction | None = None
    """Share of all steps in which the learning rate rises. Default: 5 %, for one-cycle 30 %."""
    accumulation: int = Field(default=1, ge=1)
    precision: Precision = "auto"
    clip_norm: float | None = Field(default=None, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay of an exponential moving average of weights and buffers; validation and the result use the average."""
    early_stopping: EarlyStopping | None = None
    keep: Literal["best", "last"] = "best"
    """Which weights the run ends with: of the epoch that was best on validation, or of the last."""
    freeze: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Module paths, `*` allowed (`layer1`, `encoder.*.norm`): no gradients, BatchNorm stays in evaluation mode."""
    memory_format: Literal["auto", "channels-last", "contiguous"] = "auto"
    evaluation_batch_size: int = Field(default=256, ge=1)
    checkpoint_every: float = Field(default=60.0, ge=0)
    """Seconds between writes of the full training state inside an epoch; one is written at every epoch's end."""

    @model_validator(mode="after")
    def _micro_batches_hold_a_sample(self) -> TrainingSettings:
        if self.accumulation > self.batch_size:
            raise ValueError(
                f"accumulation ({self.accumulation}) must not exceed batch_size ({self.batch_size}): "
                "a batch is split into that many micro-batches"
            )
        return self
