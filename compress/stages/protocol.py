"""What a stage is: a settings model and `run`. A stage is one file here; it knows the parents, never other stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from compress.models.variant import Variant
from compress.tasks.protocol import DataSet, Task
from export.targets import Target


class StageSettings(BaseModel):
    """Base of every stage's settings: strict, immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Progress(Protocol):
    def __call__(self, message: str, *, fraction: float | None = None, **fields: Any) -> None:
        """Tells the user and events.jsonl how far a stage is. `fraction` is of the stage, for the time left."""
        ...


@dataclass(frozen=True)
class StageContext:
    """All that a stage gets beside its parents.

    `output` is an empty folder; what is in it when `run` returns is committed to the store at once, and nothing
    otherwise. `work` outlives a killed attempt at the same key: training state goes there. `shared` is a folder for
    reusable by-products keyed by content (teacher outputs). `seed` is drawn from the recipe's seed and the stage's id.
    """

    stage_id: str
    names: tuple[str, ...]
    """The names that the plan promised for the results, in order."""
    seed: int
    task: Task
    data: DataSet
    target: Target
    device: str
    work: Path
    output: Path
    shared: Path
    progress: Progress
    variants: Mapping[str, Variant]
    """The variants that the settings refer to by name (`teacher`), beside the parents."""


class Stage(Protocol):
    """`takes`: `nothing` starts a recipe, `each` runs once per parent, `all` runs once over all parents."""

    name: ClassVar[str]
    Settings: type[StageSettings]
    takes: ClassVar[Literal["nothing", "each", "all"]]
    parents: ClassVar[Literal["torch", "file"]]
    gives: ClassVar[Literal["torch", "file", "proof"]]
    """The kind of the results, so that a wrong kind of parent is found while the recipe is read."""
    measures: ClassVar[bool]
    """True: the cache key also holds processor and engine versions, and the test split may be read."""
    packages: ClassVar[tuple[str, ...]]
    """Distributions whose versions belong to the cache key."""

    def result_names(self, stage_id: str, parents: Sequence[str], settings: Any) -> tuple[str, ...]:
        """The names of the variants that `run` will give, known before anything runs."""
        ...

    def references(self, settings: Any) -> tuple[str, ...]:
        """Names of further variants that the settings refer to, e.g. the teacher."""
        ...

    def run(self, parents: Sequence[Variant], settings: Any, context: StageContext) -> tuple[Variant, ...]: ...
