"""The keys of the prune stage. Imports no framework."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.distillation.settings import DistillationSettings
from compress.recipe.types import Boolean, Fraction, Listed, NonNegativeInt, PositiveFloat, PositiveInt, Text
from compress.training.settings import TrainingSettings

_Share = Annotated[Fraction, Field(gt=0, lt=1)]


class Reduction(BaseModel):
    """Shares of the parent's cost that have to go. With two keys both are met."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    parameters: _Share | None = Field(None, description="share of the parameters")
    macs: _Share | None = Field(None, description="share of the multiply-accumulates")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.parameters is None and self.macs is None:
            raise ValueError("expected `parameters`, `macs`, or both, e.g. {parameters: 50%, macs: 40%}")
        return self


class Sparsity(TrainingSettings):
    """Training with a penalty before anything is cut, so that the network itself lets go of channels."""

    regularizer: Literal["group_lasso", "bn_l1"] = Field(
        description="group_lasso: norm of all weights of a channel; bn_l1: scales of batch normalizations"
    )
    strength: PositiveFloat = Field(1e-4, description="weight of the penalty in the loss")
    keep: Literal["best", "last"] = Field(
        "last",
        description="weights of the last epoch, when the penalty has done its work, or of the best on validation",
    )


class Recovery(TrainingSettings, DistillationSettings):
    """Training after each step of cutting."""

    distill: Boolean = Field(False, description="learn from the parent's outputs too (temperature, alpha)")


class PruneKeys(BaseModel):
    """All keys of the stage but its name and parents."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reduce: Reduction = Field(description="how much smaller: {parameters: 50%, macs: 40%}, all that is named is met")
    importance: Literal["l1", "l2", "bn-scale", "taylor", "random"] = Field(
        "l2", description="which channels go first: those with the smallest score"
    )
    scope: Literal["local", "global"] = Field(
        "local", description="local: the same share of every layer; global: scores of all layers are compared"
    )
    protect: Listed[Text] = Field(
        (), description="module paths whose outputs are not cut, * allowed; the network's outputs never are"
    )
    channel_multiple: PositiveInt | None = Field(
        None, description="channels are kept in multiples of this; default: what the target's kernels compute at once"
    )
    keep_at_least: Fraction = Field(0.1, description="share of its channels that every layer keeps")
    best_effort: Boolean = Field(False, description="cut what can be cut when `reduce` is out of reach")
    steps: PositiveInt = Field(1, description="cut in so many steps, with recovery after each")
    recover: Recovery | None = Field(None, description="training after each step")
    sparsity: Sparsity | None = Field(None, description="training with a penalty before the first step")
    batchnorm_batches: NonNegativeInt = Field(
        20, description="training batches from which BatchNorm statistics are measured again after each step"
    )
    importance_batches: PositiveInt = Field(10, description="calibration batches that taylor reads")
    evaluation_batch_size: PositiveInt = Field(256, description="samples of one step of validation")
