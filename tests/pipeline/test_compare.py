"""Two runs side by side."""

from __future__ import annotations

import json

import pytest

from compress.errors import RecipeError
from compress.pipeline.compare import compare, render_comparison
from tests.pipeline.conftest import Project


def test_a_run_compared_with_itself_differs_in_nothing(measured: Project) -> None:
    directory = measured.run().directory
    comparison = compare(directory, directory)
    assert comparison.changed == ()
    assert comparison.differences
    assert all(item.first == item.second for item in comparison.differences)
    text = render_comparison(comparison)
    assert "recipe: the same" in text
    assert f"{len(comparison.differences)} of {len(comparison.differences)} measurements are equal" in text


def test_what_differs_is_named_with_both_values_and_the_change(measured: Project) -> None:
    first = measured.run().directory
    second = measured.run("stages.small.keep=0.25").directory
    comparison = compare(first, second)
    found = {(item.variant, item.measurement): item for item in comparison.differences}
    parameters = found["student/tflite-fp32", "parameters"]
    assert (parameters.first, parameters.second) == (500, 250)
    assert comparison.changed == ("stages.small.keep",)
    text = render_comparison(comparison)
    (line,) = [
        line for line in text.splitlines() if line.startswith("student/tflite-fp32") and "  parameters  " in line
    ]
    assert line.split()[1:] == ["parameters", "500", "250", "-50.0%"]
    assert "recipe: stages.small.keep differ" in text


def test_overlapping_intervals_are_called_no_difference(measured: Project) -> None:
    first = measured.run().directory
    second = measured.run(directory=measured.path / "copy").directory
    content = json.loads((second / "report.json").read_text())
    entry = content["variants"]["student/tflite-fp32"]
    entry["quality"]["accuracy"] += 0.001
    entry["latency_ms"]["median"] *= 10
    entry["latency_ms"]["median_interval"] = [value * 10 for value in entry["latency_ms"]["median_interval"]]
    (second / "report.json").write_text(json.dumps(content))
    found = {item.measurement: item for item in compare(first, second).differences if item.first != item.second}
    assert found["accuracy"].note == "no difference"
    assert found["latency median"].note is None


def test_a_variant_that_only_one_run_has_is_shown_as_such(measured: Project) -> None:
    first = measured.run().directory
    second = measured.run("stages.files.precision=[fp32]").directory
    only = {item.note for item in compare(first, second).differences if item.variant == "student/tflite-int8"}
    assert only == {"only in the first"}


def test_a_folder_without_a_report_is_refused(measured: Project) -> None:
    directory = measured.run().directory
    with pytest.raises(RecipeError, match="expected a run's folder"):
        compare(directory, measured.path / "none")
