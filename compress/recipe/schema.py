"""A recipe after validation: settings are typed, names are resolved, fan-out is expanded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compress.recipe.tuning import TuneSpec


@dataclass(frozen=True)
class StageSpec:
    """One entry of `stages`. `settings` is an instance of the stage's `Settings` model."""

    id: str
    use: str
    settings: Any
    parents: tuple[str, ...]
    """As written under `from`, or the stage before; empty for a stage that starts a recipe."""
    name_template: str | None
    """`as:`, a template for result names in which `{parent}` and `{id}` are replaced."""


@dataclass(frozen=True)
class Node:
    """One execution of a stage after fan-out: variant names in, variant names out."""

    stage: StageSpec
    parents: tuple[str, ...]
    references: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class GateSpec:
    """One entry of `gates`: conditions on one variant's measurements, all fractions.

    `conditions` maps a gate's name (`quality_drop`, `size_reduction`, `latency_reduction`, `quality`, ...) to its
    validated settings (a pydantic model with `min` and/or `max`, and `metric` where the gate needs one).
    """

    of: str
    conditions: dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """`nodes` is in execution order. `canonical` is the JSON-able recipe without comments, after overrides.

    `overrides` are those of `--set`, as given: with `path` they are the command that runs this recipe. `places` says
    where a setting stands, by stage id and setting, for what can be found wrong only later.
    """

    path: Path
    name: str
    seed: int
    task: str
    data: Any
    target: str
    stages: tuple[StageSpec, ...]
    nodes: tuple[Node, ...]
    gates: tuple[GateSpec, ...]
    reference: str | None
    canonical: dict[str, Any]
    text: str
    overrides: tuple[str, ...] = ()
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)
    tune: TuneSpec | None = None

    @property
    def command(self) -> str:
        """What runs this recipe, as it was given; variables of the environment are not part of it."""
        changes = (part for override in self.overrides for part in ("--set", override))
        return shlex.join(["python", "-m", "compress", "run", str(self.path), *changes])
