"""What a run has reached so far; whole at every moment, so that a run that fails can report it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compress.models.variant import Variant
from compress.pipeline.key import Surroundings
from compress.report.model import StageRecord


@dataclass(frozen=True)
class Executed:
    """One execution that ended well. `results` maps the names of variants to their digests.

    A proof holds measured times, so that its digest differs from one computation to the next.
    """

    id: str
    use: str
    key: str
    seed: int
    results: dict[str, str]


@dataclass
class Reached:
    """Grows while a run goes on. `versions` are those in the keys; `device` is set by the first computed stage."""

    variants: dict[str, Variant] = field(default_factory=dict)
    stages: list[StageRecord] = field(default_factory=list)
    executed: list[Executed] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    surroundings: Surroundings | None = None
    device: str | None = None

    @property
    def reused(self) -> int:
        """Executions that were served from the store."""
        return sum(stage.cached for stage in self.stages)

    @property
    def computed(self) -> int:
        """Executions that were computed to their end."""
        return sum(not stage.cached and stage.error is None for stage in self.stages)
