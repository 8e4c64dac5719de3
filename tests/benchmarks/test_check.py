from __future__ import annotations

from pathlib import Path
from typing import Any

import check
import pytest
import raw_samples

TARGETS = """
[chain]
"a.latency" = { target = "<= -0.45", unit = "relative change", text = "saves at least 45 %" }
"b.bytes" = { target = "<= -0.73", unit = "relative change", text = "saves at least 73 % of the bytes" }
"c.reported" = { unit = "s", text = "is reported" }
"d.missing" = { target = ">= 12", unit = "times", text = "at least 12 times smaller" }
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A benchmarks folder with three of four figures measured, one of them short, and its table written."""
    (tmp_path / "targets.toml").write_text(TARGETS)
    rounds = [[10.0 + index % 3, 10.0] for index in range(30)]
    half = [[value * 0.5 for value in row] for row in rounds]
    sample(tmp_path, "a.latency", "latency-ratio", half, rounds)
    sample(tmp_path, "b.bytes", "relative-change", 300, 1000)
    sample(tmp_path, "c.reported", "durations", [1.0, 2.0, 3.0])
    assert check.main(["--write"], tmp_path) == 0
    return tmp_path


def sample(root: Path, figure: str, kind: Any, value: Any, baseline: Any = None) -> None:
    raw_samples.write(
        "chain", figure, kind, value, baseline, command="run, quick", cpu="c", commit="1", root=root / "raw"
    )


def table_of(root: Path) -> Path:
    return root / "results" / "chain.csv"


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_table_that_follows_passes_and_shortfalls_are_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert check.main([], root) == 0
    shown = capsys.readouterr().out
    assert "3 of 4 figures measured, 1 short" in shown
    assert "short: b.bytes: -0.7, target <= -0.73" in shown
    assert "not measured: d.missing" in shown


def test_every_figure_has_a_row_measured_or_not(root: Path) -> None:
    lines = table_of(root).read_text().splitlines()
    assert lines[0] == "figure,target,measured,low,high,unit,engine,cpu,n,seed,command,commit"
    assert [line.split(",")[0] for line in lines[1:]] == ["a.latency", "b.bytes", "c.reported", "d.missing"]
    assert lines[4] == "d.missing,>= 12,,,,times,,,,,,"


def test_a_beautified_figure_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(table_of(root), "b.bytes,<= -0.73,-0.7,", "b.bytes,<= -0.73,-0.74,")
    assert check.main([], root) == 1
    assert "b.bytes: measured is '-0.74', and '-0.7' follows from the raw samples" in capsys.readouterr().err


def test_a_softened_target_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(table_of(root), "<= -0.73", "<= -0.7")
    assert check.main([], root) == 1
    assert "targets.toml" in capsys.readouterr().err


def test_a_dropped_row_fails(root: Path) -> None:
    lines = table_of(root).read_text().splitlines(keepends=True)
    table_of(root).write_text("".join(lines[:2] + lines[3:]))
    assert check.main([], root) == 1


def test_changed_raw_samples_fail_until_the_table_is_written_anew(root: Path) -> None:
    sample(root, "b.bytes", "relative-change", 250, 1000)
    assert check.main([], root) == 1
    assert check.main(["--write"], root) == 0
    assert check.main([], root) == 0


def test_an_interval_may_differ_a_little_and_not_much(root: Path) -> None:
    rows = table_of(root).read_text().splitlines()
    row = rows[3].split(",")
    low, high = float(row[3]), float(row[4])
    for shift, outcome in ((0.05, 0), (0.5, 1)):
        row[3] = f"{low + shift * (high - low):.6g}"
        table_of(root).write_text("\n".join([*rows[:3], ",".join(row), *rows[4:]]) + "\n")
        assert check.main([], root) == outcome


def test_damaged_raw_samples_fail_and_leave_the_table_alone(root: Path) -> None:
    before = table_of(root).read_text()
    (root / "raw" / "chain" / "b.bytes.json").write_text("{")
    assert check.main(["--write"], root) == 1
    assert table_of(root).read_text() == before


def test_samples_of_a_figure_that_nobody_asked_for_fail(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample(root, "e.surprise", "count", [0])
    assert check.main([], root) == 1
    assert "e.surprise" in capsys.readouterr().err


def test_a_missing_table_or_one_without_targets_fails(root: Path) -> None:
    (root / "results" / "other.csv").write_text("figure\n")
    assert check.main([], root) == 1
    (root / "results" / "other.csv").unlink()
    table_of(root).unlink()
    assert check.main([], root) == 1


@pytest.mark.parametrize("target", ["< -0.45", "about 3", "<=1", ">= 12 times"])
def test_a_target_of_another_form_fails(root: Path, target: str) -> None:
    replace(root / "targets.toml", "<= -0.45", target)
    assert check.main([], root) == 1


def test_the_projects_own_table_follows_from_its_samples() -> None:
    assert check.main([], check.HERE) == 0
