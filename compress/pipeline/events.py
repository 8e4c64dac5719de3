"""What happens in a run, as data: one JSON object a line in events.jsonl, and what a listener gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "run-started",
    "data-prepared",
    "stage-waiting",
    "stage-started",
    "stage-progress",
    "stage-reused",
    "stage-finished",
    "stage-failed",
    "warning",
    "gate",
    "run-finished",
]


@dataclass(frozen=True)
class Event:
    """`time` is ISO 8601 in UTC. `fields` is JSON-able; which keys it has depends on `kind`."""

    time: str
    kind: Kind
    message: str
    stage: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
