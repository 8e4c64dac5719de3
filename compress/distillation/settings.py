"""How strongly, and how softly, a student follows its teacher. Imports no framework."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from compress.recipe.types import Boolean, Fraction, PositiveFloat


class DistillationSettings(BaseModel):
    """Loss: alpha * T^2 * KL(teacher || student, both softened by T) + (1 - alpha) * the task's own loss."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    temperature: PositiveFloat = Field(4.0, description="softens the outputs of both (Hinton et al. 2015)")
    alpha: Fraction = Field(0.7, description="share of the teacher in the loss; the rest is the labels'")
    keep_outputs: Boolean = Field(
        True, description="keep the teacher's outputs by sample and augmentation, for later epochs and runs"
    )
