from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_samples import KINDS, Kind, RawSamplesError, Result, compute, read, write, write_from_proof

from compress.report.comparison import compare
from compress.report.proof import write_proof
from tests.report.made_up import chain_proof


def result_of(tmp_path: Path, kind: Kind, value: Any, baseline: Any = None) -> Result:
    return compute(read(write("t", "a.figure", kind, value, baseline, command="x", cpu="c", commit="1", root=tmp_path)))


def test_a_latency_ratio_is_of_medians_with_an_interval_over_rounds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    disturbed = rng.uniform(1, 3, size=(40, 1))
    result = result_of(
        tmp_path, "latency-ratio", disturbed * rng.uniform(0.49, 0.51, (40, 2)), disturbed * np.ones((40, 2))
    )
    assert result.measured == pytest.approx(-0.5, abs=0.05)
    assert result.interval[0] <= result.measured <= result.interval[1]
    assert result.n == 80


def test_a_correctness_difference_is_paired(tmp_path: Path) -> None:
    right = np.arange(1000) % 3 > 0
    fewer = right.copy()
    fewer[:10] = False
    result = result_of(tmp_path, "correctness-difference", fewer, right)
    assert result.measured == pytest.approx(-0.007, abs=0.001)
    assert result.interval[1] - result.interval[0] < 0.02
    assert result.n == 1000


def test_sizes_are_exact(tmp_path: Path) -> None:
    assert result_of(tmp_path, "relative-change", 250, 1000) == Result(-0.75, (-0.75, -0.75), 1)
    assert result_of(tmp_path, "times-smaller", 250, 3000) == Result(12.0, (12.0, 12.0), 1)


def test_few_durations_give_their_range_and_many_an_interval(tmp_path: Path) -> None:
    assert result_of(tmp_path, "durations", [3.0, 1.0, 2.0]) == Result(2.0, (1.0, 3.0), 3)
    many = result_of(tmp_path, "durations", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0])
    assert many.measured == 4.0
    assert many.interval[1] < 100.0


def test_a_difference_of_durations_is_taken_turn_by_turn(tmp_path: Path) -> None:
    assert result_of(tmp_path, "duration-difference", [1.5, 11.5], [1.0, 11.0]).measured == pytest.approx(0.5)


def test_counts_add_up_over_trials(tmp_path: Path) -> None:
    assert result_of(tmp_path, "count", [0, 0, 1, 0]) == Result(1.0, (1.0, 1.0), 4)


@pytest.mark.parametrize(
    ("kind", "value", "baseline"),
    [
        ("latency-ratio", [1.0, 2.0], [1.0, 2.0]),
        ("latency-ratio", [[1.0], [2.0]], [[1.0]]),
        ("latency-ratio", [[1.0], [0.0]], [[1.0], [1.0]]),
        ("correctness-difference", "0102", "0101"),
        ("correctness-difference", "01", "011"),
        ("relative-change", 1, 0),
        ("durations", [], None),
        ("durations", [0.0], None),
        ("count", [1.5], None),
        ("count", [-1], None),
        ("count", [], None),
    ],
)
def test_samples_of_another_form_are_refused_before_they_are_written(
    tmp_path: Path, kind: Kind, value: Any, baseline: Any
) -> None:
    with pytest.raises(RawSamplesError, match=r"a\.figure"):
        result_of(tmp_path, kind, value, baseline)
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("figure", ["../escape", "With Space", "", ".hidden"])
def test_a_figure_name_cannot_leave_its_folder(tmp_path: Path, figure: str) -> None:
    with pytest.raises(RawSamplesError, match="figure's name"):
        write("t", figure, "count", [0], command="x", root=tmp_path)


def edited(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_a_damaged_or_renamed_raw_file_is_refused_by_its_path(tmp_path: Path) -> None:
    def fresh() -> Path:
        return write("t", "a.figure", "count", [0], command="x", cpu="c", commit="1", root=tmp_path)

    with pytest.raises(RawSamplesError, match="unknown kind"):
        read(edited(fresh(), kind="guess"))
    with pytest.raises(RawSamplesError, match=r"b\.figure"):
        read(edited(fresh(), figure="b.figure"))
    with pytest.raises(RawSamplesError, match="takes no baseline"):
        read(edited(fresh(), baseline=[0]))
    with pytest.raises(RawSamplesError, match="not a file of raw samples"):
        read(edited(fresh(), more=1))
    path = fresh()
    path.write_text("{")
    with pytest.raises(RawSamplesError, match=str(path)):
        read(path)


def test_samples_of_a_proof_give_the_figure_that_the_report_shows(tmp_path: Path) -> None:
    proof = chain_proof(tmp_path)
    write_proof(proof, tmp_path)
    of, against = "student/tflite-int8", "baseline/tflite-fp32"
    shown = compare(proof, of, against)
    common: dict[str, Any] = {"command": "x", "commit": "1", "root": tmp_path / "raw"}
    latency = compute(read(write_from_proof("t", "latency", "latency-ratio", tmp_path, of, against, **common)))
    quality = compute(read(write_from_proof("t", "quality", "correctness-difference", tmp_path, of, against, **common)))
    assert latency.measured == pytest.approx(shown.latency, abs=1e-4)
    assert latency.interval == pytest.approx(shown.latency_interval, abs=1e-3)
    assert quality.measured == pytest.approx(shown.quality)
    assert quality.interval == shown.quality_interval


def test_a_proof_that_did_not_measure_the_file_is_refused(tmp_path: Path) -> None:
    write_proof(chain_proof(tmp_path), tmp_path)
    with pytest.raises(RawSamplesError, match="student/onnx-int8"):
        write_from_proof(
            "t", "a", "latency-ratio", tmp_path, "student/onnx-int8", "baseline/tflite-fp32", command="x", root=tmp_path
        )


def test_every_kind_is_described_in_the_readme() -> None:
    text = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text()
    for kind in KINDS:
        assert f"`{kind}`" in text
