"""Published claims as data: the tables shipped under `reference/`, read into typed records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from compress.errors import RecipeError

REFERENCES: Mapping[str, str] = {"compression-table": "compression_table.yaml"}
"""Every reference that a recipe can name, and its file."""

Technique = Literal["int8", "prune", "prune-distill"]
Quantity = Literal["bytes", "weight_bytes", "parameters", "latency", "quality"]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(_Strict):
    """Which files of a run answer a claim: those of `technique`, where every change in `reached` was reached."""

    technique: Technique
    quantity: Quantity
    reached: dict[Quantity, float] = Field(default_factory=dict)


class Claim(_Strict):
    """One published figure or property. `claimed` is signed; a pair is a range, from the lower number to the higher."""

    id: str
    statement: str
    claimed: Annotated[float | tuple[float, float] | None, BeforeValidator(_as_tuple)]
    unit: Literal["relative change", "metric change", "share", "property"]
    better: Literal["lower", "higher"] | None = None
    metric: str | None = None
    measured_as: str
    answer: Answer | None = None
    task: str
    """The task that the claim speaks of; measured on another, a row is the product's own extension."""

    @property
    def range(self) -> tuple[float, float] | None:
        """Low and high of what is claimed; equal for a single figure."""
        if self.claimed is None or isinstance(self.claimed, tuple):
            return self.claimed
        return self.claimed, self.claimed


@cache
def load_claims(reference: str) -> tuple[Claim, ...]:
    """The claims of a shipped reference. Raises RecipeError when there is none of that name."""
    if reference not in REFERENCES:
        raise RecipeError([f"reference: expected one of {', '.join(REFERENCES)}, got {reference!r}"])
    text = files("compress.report").joinpath("reference", REFERENCES[reference]).read_text(encoding="utf-8")
    table = yaml.safe_load(text)
    return tuple(Claim(task=table["task"], **claim) for claim in table["claims"])
