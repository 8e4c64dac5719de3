"""Progress on a terminal, or line by line into a log: what runs, how far it is, and how long it will still take."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from compress.pipeline.events import Event
from compress.pipeline.text import duration

_LOG_EVERY = 15.0
_REDRAW_EVERY = 0.1


class TerminalProgress:
    """A listener that writes to a stream: one line redrawn in place on a terminal, else a line at most every 15 s."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._redraws = stream.isatty()
        self._drawn = False
        self._last = 0.0
        self._position = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "stage-started":
            fields = event.fields
            self._position = f"[{fields['position']}/{fields['steps']}] "
        if event.kind == "stage-progress":
            self._progress(event)
            return
        text = _line(event)
        if text is not None:
            self._clear()
            self._write(self._position_of(event) + text + "\n")
            self._last = time.monotonic()

    def _position_of(self, event: Event) -> str:
        if "position" in event.fields:
            return f"[{event.fields['position']}/{event.fields['steps']}] "
        return ""

    def _progress(self, event: Event) -> None:
        passing = event.fields.get("fraction") is not None
        pause = time.monotonic() - self._last
        if passing and pause < (_REDRAW_EVERY if self._redraws else _LOG_EVERY):
            return
        self._last = time.monotonic()
        text = f"{self._position}{event.stage}: {event.message}{_left(event)}"
        self._clear()
        if self._redraws and passing:
            width = shutil.get_terminal_size().columns
            self._write(text[: width - 1])
            self._drawn = True
        else:
            self._write(text + "\n")

    def _clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe or stream must not end a run
            self._redraws = False


def _left(event: Event) -> str:
    fraction, left = event.fields.get("fraction"), event.fields.get("seconds_left")
    text = f"  {fraction:4.0%}" if fraction is not None else ""
    if left is not None and not event.message.endswith(" left"):
        text += f"  {duration(left)} left"
    run_left = event.fields.get("run_seconds_left")
    if run_left is not None and left is not None and run_left > left + 1:
        text += f", run {duration(run_left)}"
    return text


def _line(event: Event) -> str | None:
    match event.kind:
        case "stage-started" | "stage-finished" | "stage-reused" | "stage-waiting":
            return f"{event.stage}: {event.message}"
        case "warning":
            return f"warning: {event.message}"
        case "run-started" | "data-prepared":
            return event.message
        case _:  # failures, gates and the end are in the summary that the command prints
            return None
