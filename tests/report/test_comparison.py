from __future__ import annotations

from pathlib import Path

import pytest

from compress.report.comparison import class_drops, compare
from compress.report.proof import MeasuredProof
from tests.report.made_up import BASELINE, LABELS, STUDENT, chain_proof, file_variant, make_proof


def test_changes_are_relative_to_the_other_file_and_signed(chain: MeasuredProof) -> None:
    comparison = compare(chain, "student/tflite-fp32", "baseline/tflite-fp32")
    assert comparison.bytes == pytest.approx(1100 / 4000 - 1)
    assert comparison.parameters == pytest.approx(-0.72)
    assert comparison.macs == pytest.approx(-0.72)
    assert comparison.latency == pytest.approx(-0.7, abs=0.01)
    assert comparison.latency_interval is not None
    assert comparison.latency_interval[0] <= comparison.latency <= comparison.latency_interval[1]
    assert comparison.latency_change == "better"


def test_any_two_measured_files_can_be_compared_after_the_run(chain: MeasuredProof) -> None:
    comparison = compare(chain, "student/tflite-int8", "pruned/tflite-int8")
    assert comparison.of == "pruned/tflite-int8"
    assert comparison.latency == pytest.approx(3 / 5 - 1, abs=0.01)
    assert comparison.quality == pytest.approx(0.01)


def test_quality_is_paired_so_that_shared_mistakes_add_no_noise(chain: MeasuredProof) -> None:
    """Both miss the same 8 samples, one of them 4 more: unpaired, the intervals of 98 % and 97 % would overlap."""
    comparison = compare(chain, "pruned/tflite-fp32", "baseline/tflite-fp32")
    low, high = comparison.quality_interval
    one = chain["pruned/tflite-fp32"].quality_interval["accuracy"]
    other = chain["baseline/tflite-fp32"].quality_interval["accuracy"]
    assert comparison.quality == pytest.approx(-0.01)
    assert high - low < (one[1] - one[0] + other[1] - other[0]) / 2


def test_an_interval_that_holds_zero_is_no_difference(tmp_path: Path) -> None:
    a = file_variant(tmp_path, BASELINE, "tflite", "fp32", 100)
    b = file_variant(tmp_path, STUDENT, "tflite", "fp32", 100)
    proof = make_proof(tmp_path, {a.name: (a, "litert", 4.0, 0.05), b.name: (b, "litert", 4.0, 0.0525)}, a.name)
    comparison = compare(proof, b.name, a.name)
    assert comparison.latency_change == "no difference"
    assert comparison.quality_change == "no difference"


def test_a_file_compared_with_itself_has_not_changed(chain: MeasuredProof) -> None:
    comparison = compare(chain, "student/tflite-int8", "student/tflite-int8")
    assert (comparison.bytes, comparison.latency, comparison.quality) == (0, 0, 0)
    assert comparison.latency_interval == (0, 0)


def test_latency_that_was_not_timed_is_none_and_not_zero(tmp_path: Path) -> None:
    comparison = compare(chain_proof(tmp_path, timed=False), "student/tflite-int8", "baseline/tflite-fp32")
    assert comparison.latency is None
    assert comparison.latency_change is None


def test_classes_fall_one_by_one_and_add_up_to_the_whole(chain: MeasuredProof) -> None:
    drops = class_drops(chain, "pruned/tflite-int8", "baseline/tflite-fp32")
    assert [drop.label for drop in drops] == list(LABELS)
    whole = compare(chain, "pruned/tflite-int8", "baseline/tflite-fp32").quality
    assert sum(drop.drop for drop in drops) / len(drops) == pytest.approx(-whole)
    assert all(drop.interval[0] <= drop.drop <= drop.interval[1] for drop in drops)
