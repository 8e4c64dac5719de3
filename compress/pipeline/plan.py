"""What a run would do, decided without doing it: steps, store hits, predicted time and disk. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compress.recipe.registry import Registry

State = Literal["stored", "to compute", "unknown"]
Basis = Literal["measured here", "rough"]


@dataclass(frozen=True)
class Prediction:
    """`seconds` and `disk_bytes` that a step will take. `measured here`: scaled from earlier runs in this store."""

    seconds: float
    disk_bytes: int
    basis: Basis


@dataclass(frozen=True)
class Step:
    """One execution of a stage.

    `state`: `stored` is served from the store; `to compute` is not there; `unknown` depends on a parent that has to
    be computed first (if the parent comes out equal to an earlier one, the step is served after all). `key` is None
    where it is not known yet. `prediction` is None for a stored step.
    """

    stage: str
    use: str
    parents: tuple[str, ...]
    results: tuple[str, ...]
    state: State
    key: str | None
    prediction: Prediction | None
    last_failure: str | None = None


@dataclass(frozen=True)
class Plan:
    """Steps in the order in which they run. `note` says what could not be known, e.g. that data was never prepared."""

    recipe: str
    store: Path
    steps: tuple[Step, ...]
    note: str | None = None

    @property
    def seconds(self) -> float:
        """Predicted wall time of what is not stored."""
        return sum(step.prediction.seconds for step in self.steps if step.prediction is not None)

    @property
    def disk_bytes(self) -> int:
        """Predicted growth of the store."""
        return sum(step.prediction.disk_bytes for step in self.steps if step.prediction is not None)


def plan(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    store: Path | None = None,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Plans a run of a recipe. Writes nothing anywhere, imports no framework. Raises RecipeError."""
    raise NotImplementedError


def render_plan(plan: Plan) -> str:
    """The plan as a table for a terminal, with totals."""
    raise NotImplementedError
