"""Events, progress on a terminal and in a log, and times left."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from compress.pipeline.events import Event, EventLog, read_events
from compress.pipeline.progress import TerminalProgress
from compress.pipeline.text import duration, shortened, size, table
from compress.pipeline.timing import StageClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def event(kind: Any, message: str, **fields: Any) -> Event:
    return Event("2026-01-01T00:00:00.000Z", kind, message, "small", fields)


def test_every_event_is_one_line_on_disk_before_the_next_thing_happens(tmp_path: Path) -> None:
    seen: list[Event] = []
    with EventLog(tmp_path / "events.jsonl", seen.append) as log:
        log("stage-started", "cut\nof baseline", "small", position=1, steps=2)
        (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    content = json.loads(line)
    assert (content["event"], content["stage"], content["message"]) == ("stage-started", "small", "cut\nof baseline")
    assert content["position"] == 1
    assert seen[0].fields == {"position": 1, "steps": 2}


def test_a_value_that_json_does_not_know_is_written_as_text(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.jsonl", lambda event: None) as log:
        log("warning", "x", path=Path("a/b"))
    assert read_events(tmp_path / "events.jsonl")[0]["path"] == "a/b"


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "run-started"}\n{"event": "stage-st')
    assert [event["event"] for event in read_events(path)] == ["run-started"]


def test_a_log_that_cannot_be_written_counts_what_it_lost_and_still_tells_the_listener(tmp_path: Path) -> None:
    seen: list[Event] = []
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with EventLog(Path("/dev/full"), seen.append) as log:
        log("warning", "one")
        log("warning", "two")
    assert len(seen) == 2
    assert log.lost >= 2


def test_a_log_shows_starts_ends_and_now_and_then_progress() -> None:
    stream = io.StringIO()
    show = TerminalProgress(stream)
    show(event("stage-started", "cut of baseline", position=2, steps=5))
    for step in range(1, 50):
        show(event("stage-progress", f"step {step}", fraction=step / 50, seconds_left=50 - step))
    show(event("stage-progress", "teacher accuracy 97.1 %"))
    show(event("stage-finished", "done in 50 s: small", position=2, steps=5))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "[2/5] small: cut of baseline"
    assert "[2/5] small: teacher accuracy 97.1 %" in lines
    assert lines[-1] == "[2/5] small: done in 50 s: small"
    assert len(lines) == 3


def test_a_terminal_shows_one_line_that_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compress.pipeline.progress.time.monotonic", iter(range(100)).__next__)
    stream = Terminal()
    show = TerminalProgress(stream)
    show(event("stage-started", "cut of baseline", position=2, steps=5))
    show(event("stage-progress", "step 1", fraction=0.25, seconds_left=75, run_seconds_left=200))
    show(event("stage-progress", "step 2", fraction=0.5, seconds_left=50, run_seconds_left=175))
    show(event("stage-finished", "done", position=2, steps=5))
    text = stream.getvalue()
    assert "small: step 1   25%  1 min 15 s left, run 3 min 20 s" in text
    assert text.count("\n") == 2
    assert text.count("\r\x1b[K") == 2


def test_a_closed_pipe_ends_no_run() -> None:
    stream = io.StringIO()
    show = TerminalProgress(stream)
    stream.close()
    show(event("warning", "x"))


def test_failures_are_left_to_the_last_line_that_the_command_prints() -> None:
    stream = io.StringIO()
    TerminalProgress(stream)(event("stage-failed", "stage 'small' failed: x"))
    assert stream.getvalue() == ""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_the_progress_of_the_stage_itself() -> None:
    clock = Clock()
    stage = StageClock(expected=1000, later=30, clock=clock)
    stage.update(0.0)
    clock.now = 25
    assert stage.update(0.25) == {"seconds_left": 75.0, "run_seconds_left": 105.0}


def test_before_a_stage_has_moved_the_time_left_is_the_predicted_one() -> None:
    clock = Clock()
    stage = StageClock(expected=100, later=0, clock=clock)
    clock.now = 10
    assert stage.update(0.001) == {"seconds_left": 89.9, "run_seconds_left": 89.9}


def test_a_resumed_stage_is_not_taken_for_a_fast_one() -> None:
    clock = Clock()
    stage = StageClock(expected=100, later=0, clock=clock)
    stage.update(0.8)
    clock.now = 10
    left = stage.update(0.9)
    assert left is not None
    assert left["seconds_left"] == pytest.approx(10)


def test_progress_is_told_at_most_every_half_second_but_the_end_always() -> None:
    clock = Clock()
    stage = StageClock(expected=100, later=0, clock=clock)
    assert stage.update(0.1) is not None
    clock.now = 0.1
    assert stage.update(0.2) is None
    assert stage.update(None) == {}
    assert stage.update(1.0) is not None


def test_figures_are_written_for_people() -> None:
    assert [duration(seconds) for seconds in (4.4, 59.6, 200, 7500)] == [
        "4 s",
        "1 min 00 s",
        "3 min 20 s",
        "2 h 05 min",
    ]
    assert [size(count) for count in (812, 2048, 3 * 2**20, 5 * 2**30)] == ["812 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert shortened(("a", "b", "c")) == "a, b, +1"
    assert table([("a", "bb"), ("ccc", "d")]) == ["a    bb", "-------", "ccc  d"]
