"""What happens in a run, as data: one JSON object a line in events.jsonl, and what a listener gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

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

    def to_json(self) -> str:
        """One line, without its end."""
        head = {"time": self.time, "event": self.kind, "stage": self.stage, "message": self.message}
        return json.dumps({key: value for key, value in head.items() if value is not None} | self.fields, default=str)


Listener = Callable[[Event], None]


def now() -> str:
    """ISO 8601 in UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EventLog:
    """Appends events to a file, each line flushed at once, and hands them to a listener. Usable from any thread.

    A log that cannot be written (full disk) stops no run: `lost` counts what it missed.
    """

    def __init__(self, path: Path, listener: Listener) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._listener = listener
        self._lock = threading.Lock()
        self.lost = 0

    def __call__(self, kind: Kind, message: str, stage: str | None = None, **fields: Any) -> None:
        event = Event(now(), kind, message, stage, fields)
        with self._lock:
            try:
                self._file.write(event.to_json() + "\n")
                self._file.flush()
            except OSError:
                self.lost += 1
            self._listener(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError:
            self.lost += 1


def read_events(path: Path) -> tuple[dict[str, Any], ...]:
    """The events of a file; a last line that a kill cut off is left out."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return tuple(events)
