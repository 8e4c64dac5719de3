"""What recipes can name: stages, tasks, sources. Passed in, so that this floor knows none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Registry:
    """`stages` maps `use` to an object of the Stage protocol, `tasks` a name to one of the Task protocol.

    `model_sources` and `data_sources` (by task) map a source name to its pydantic settings model; a recipe section
    `{source: NAME, ...}` is validated against it.
    """

    stages: Mapping[str, Any]
    tasks: Mapping[str, Any]
    model_sources: Mapping[str, Any]
    data_sources: Mapping[str, Mapping[str, Any]]
    targets: tuple[str, ...]
    references: tuple[str, ...]
