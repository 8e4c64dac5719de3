"""Two runs side by side: `edgepress compare RUN RUN`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Difference:
    """One measurement of one variant in two runs. None where a run has not measured it."""

    variant: str
    measurement: str
    first: float | None
    second: float | None
    note: str | None = None
    """`no difference` where the two intervals overlap."""


@dataclass(frozen=True)
class Comparison:
    """`same_settings` is False when the recipes differ; `changed` names the recipe keys that do."""

    first: Path
    second: Path
    changed: tuple[str, ...]
    differences: tuple[Difference, ...]


def compare(first: Path, second: Path) -> Comparison:
    """Compares two run folders (or their report.json). Raises RecipeError for a folder without a readable report."""
    raise NotImplementedError


def render_comparison(comparison: Comparison) -> str:
    """The comparison as a table for a terminal."""
    raise NotImplementedError
