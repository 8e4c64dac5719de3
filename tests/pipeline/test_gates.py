from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from compress.pipeline.gates import all_passed, evaluate_gates
from compress.recipe import gates
from compress.recipe.schema import GateSpec
from compress.report.model import GateResult
from compress.report.proof import MeasuredProof
from tests.report.made_up import BASELINE, chain_proof, file_variant, make_proof

FILE = "student/tflite-int8"


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> MeasuredProof:
    return chain_proof(tmp_path_factory.mktemp("chain"))


def one(proof: MeasuredProof, name: str, settings: gates.GateSettings, of: str = FILE) -> GateResult:
    (result,) = evaluate_gates([GateSpec(of, {name: settings})], [proof])
    return result


PASSING: list[tuple[str, gates.GateSettings]] = [
    ("quality", gates.Quality(metric="accuracy", min=0.97)),
    ("quality_drop", gates.QualityDrop(metric="accuracy", max=0.01)),
    ("class_quality_drop", gates.ClassQualityDrop(metric="accuracy", max=0.02)),
    ("size_reduction", gates.SizeReduction(min=0.92)),
    ("latency_reduction", gates.LatencyReduction(min=0.6)),
    ("parameters_reduction", gates.ParametersReduction(min=0.72)),
    ("macs_reduction", gates.MacsReduction(min=0.7)),
    ("latency", gates.Latency(max=0.004)),
    ("size", gates.Size(max=300)),
    ("peak_memory", gates.PeakMemory(max=60_000_000)),
    ("int8_share", gates.Int8Share(weights=0.95)),
    ("transposes", gates.Transposes(max=2)),
]
FAILING: list[tuple[str, gates.GateSettings]] = [
    ("quality", gates.Quality(metric="accuracy", min=0.99)),
    ("quality_drop", gates.QualityDrop(metric="accuracy", max=0.001)),
    ("class_quality_drop", gates.ClassQualityDrop(metric="accuracy", max=0.001)),
    ("size_reduction", gates.SizeReduction(min=0.95)),
    ("latency_reduction", gates.LatencyReduction(min=0.7)),
    ("parameters_reduction", gates.ParametersReduction(min=0.8)),
    ("macs_reduction", gates.MacsReduction(min=0.8)),
    ("latency", gates.Latency(max=0.003)),
    ("size", gates.Size(max=200)),
    ("peak_memory", gates.PeakMemory(max=1_000_000)),
    ("transposes", gates.Transposes(max=1)),
]


def test_both_lists_below_cover_every_gate() -> None:
    assert {name for name, _ in PASSING} == set(gates.GATES)
    assert {name for name, _ in FAILING} == set(gates.GATES) - {"int8_share"}


@pytest.mark.parametrize(("name", "settings"), PASSING, ids=lambda value: value if isinstance(value, str) else "")
def test_a_measurement_on_the_right_side_passes(chain: MeasuredProof, name: str, settings: gates.GateSettings) -> None:
    result = one(chain, name, settings)
    assert result.passed
    assert result.reason is None
    assert result.measured is not None
    assert result.gate == name


@pytest.mark.parametrize(("name", "settings"), FAILING, ids=lambda value: value if isinstance(value, str) else "")
def test_a_measurement_on_the_wrong_side_fails_and_says_both_numbers(
    chain: MeasuredProof, name: str, settings: gates.GateSettings
) -> None:
    result = one(chain, name, settings)
    assert not result.passed
    assert result.measured is not None
    assert "wanted" in str(result.reason)


def test_int8_share_is_judged_by_weights_and_by_macs(chain: MeasuredProof) -> None:
    spec = GateSpec("student/tflite-fp32", {"int8_share": gates.Int8Share(weights=0.95, macs=0.95)})
    results = evaluate_gates([spec], [chain])
    assert [(result.metric, result.passed) for result in results] == [("weights", False), ("macs", False)]


def test_a_drop_of_exactly_the_limit_passes(chain: MeasuredProof) -> None:
    """0.98 - 0.9775 is not 0.0025 in floating point."""
    assert one(chain, "quality_drop", gates.QualityDrop(metric="accuracy", max=0.0025)).passed


def test_a_limit_inside_the_interval_is_unresolved_whichever_way_it_went(chain: MeasuredProof) -> None:
    passed = one(chain, "quality_drop", gates.QualityDrop(metric="accuracy", max=0.003))
    failed = one(chain, "quality_drop", gates.QualityDrop(metric="accuracy", max=0.002))
    assert (passed.passed, passed.unresolved) == (True, True)
    assert (failed.passed, failed.unresolved) == (False, True)
    assert failed.interval is not None
    assert failed.interval[0] < 0.002 < failed.interval[1]


def test_a_limit_outside_the_interval_is_resolved(chain: MeasuredProof) -> None:
    assert not one(chain, "quality_drop", gates.QualityDrop(metric="accuracy", max=0.05)).unresolved


def test_against_names_another_file_than_the_baseline(chain: MeasuredProof) -> None:
    settings = gates.LatencyReduction(min=0.1, against="student/tflite-fp32")
    result = one(chain, "latency_reduction", settings)
    assert not result.passed
    assert result.against == "student/tflite-fp32"
    assert result.measured == pytest.approx(-0.14, abs=0.01)


def test_a_failed_class_gate_names_the_classes(chain: MeasuredProof) -> None:
    result = one(chain, "class_quality_drop", gates.ClassQualityDrop(metric="accuracy", max=0.001))
    assert "circle" in str(result.reason) or "square" in str(result.reason)


def test_engine_picks_the_measurement(tmp_path: Path) -> None:
    variant = file_variant(tmp_path, BASELINE, "onnx", "fp32", 100)
    files = {
        variant.name: (variant, "onnxruntime", 8.0, 0.0),
        f"{variant.name}@openvino": (variant, "openvino", 2.0, 0.0),
    }
    proof = make_proof(tmp_path, files, variant.name)
    assert not one(proof, "latency", gates.Latency(max=0.004), variant.name).passed
    assert one(proof, "latency", gates.Latency(max=0.004, engine="openvino"), variant.name).passed


def test_against_is_taken_on_the_engine_of_the_file_where_both_ran_on_it(tmp_path: Path) -> None:
    fp32 = file_variant(tmp_path, BASELINE, "onnx", "fp32", 400)
    int8 = file_variant(tmp_path, BASELINE, "onnx", "int8", 100)
    files = {
        f"{variant.name}{suffix}": (variant, engine, ms, 0.0)
        for variant, base in ((fp32, 10.0), (int8, 5.0))
        for suffix, engine, ms in (("", "onnxruntime", base), ("@openvino", "openvino", base / 4))
    }
    proof = make_proof(tmp_path, files, fp32.name)
    settings = gates.LatencyReduction(min=0.45, against=fp32.name, engine="openvino")
    result = one(proof, "latency_reduction", settings, int8.name)
    assert result.against == f"{fp32.name}@openvino"
    assert result.measured == pytest.approx(0.5, abs=0.01)


# A gate that cannot be evaluated has failed.


def settings_of(name: str, **changes: Any) -> gates.GateSettings:
    return dict(PASSING)[name].model_copy(update=changes)


@pytest.mark.parametrize("name", gates.GATES)
def test_without_any_measurement_every_gate_fails(name: str) -> None:
    results = evaluate_gates([GateSpec(FILE, {name: settings_of(name)})], [])
    assert len(results) == 1
    assert not results[0].passed
    assert results[0].measured is None
    assert "nothing was measured" in str(results[0].reason)


@pytest.mark.parametrize("name", gates.GATES)
def test_a_file_that_was_not_measured_fails_every_gate(chain: MeasuredProof, name: str) -> None:
    result = one(chain, name, settings_of(name), of="student/onnx-int8")
    assert not result.passed
    assert "student/onnx-int8 was not measured" in str(result.reason)


@pytest.mark.parametrize("name", ["quality_drop", "size_reduction", "latency_reduction", "class_quality_drop"])
def test_a_missing_comparison_fails(chain: MeasuredProof, name: str) -> None:
    result = one(chain, name, settings_of(name, against="baseline/onnx-fp32"))
    assert not result.passed
    assert "baseline/onnx-fp32" in str(result.reason)


@pytest.mark.parametrize("name", ["quality", "quality_drop", "class_quality_drop"])
def test_a_metric_that_was_not_measured_fails_with_those_that_were(chain: MeasuredProof, name: str) -> None:
    result = one(chain, name, settings_of(name, metric="map50"))
    assert not result.passed
    assert "map50" in str(result.reason)
    assert "accuracy" in str(result.reason)


@pytest.mark.parametrize("name", ["latency", "latency_reduction"])
def test_latency_that_was_not_timed_fails(tmp_path: Path, name: str) -> None:
    result = one(chain_proof(tmp_path, timed=False), name, settings_of(name))
    assert not result.passed
    assert result.measured is None


def test_memory_that_was_not_measured_fails(chain: MeasuredProof) -> None:
    measurements = chain.measurements
    variants = measurements.variants | {FILE: chain[FILE].model_copy(update={"peak_memory_bytes": None})}
    proof = dataclasses.replace(chain, measurements=measurements.model_copy(update={"variants": variants}))
    assert not one(proof, "peak_memory", settings_of("peak_memory")).passed


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_measurement_that_is_no_number_fails(chain: MeasuredProof, value: float) -> None:
    measurement = chain[FILE].model_copy(update={"quality": {"accuracy": value}})
    variants = chain.measurements.variants | {FILE: measurement}
    proof = dataclasses.replace(chain, measurements=chain.measurements.model_copy(update={"variants": variants}))
    result = one(proof, "quality", gates.Quality(metric="accuracy", min=0.0))
    assert not result.passed
    assert result.measured is None


def test_an_error_while_a_gate_is_read_fails_the_gate_and_not_the_report(chain: MeasuredProof) -> None:
    variants = chain.measurements.variants
    empty = variants["baseline/tflite-fp32"].model_copy(update={"bytes": 0})
    broken = chain.measurements.model_copy(update={"variants": variants | {"baseline/tflite-fp32": empty}})
    result = one(dataclasses.replace(chain, measurements=broken), "size_reduction", gates.SizeReduction(min=0.0))
    assert not result.passed
    assert "baseline above zero" in str(result.reason)


def test_a_gate_is_judged_where_all_it_needs_was_measured(chain: MeasuredProof, tmp_path: Path) -> None:
    """The first benchmark measured the file without the other; the second measured both."""
    variant = file_variant(tmp_path, BASELINE, "tflite", "fp32", 100)
    alone = make_proof(tmp_path, {variant.name: (variant, "litert", 1.0, 0.0)}, variant.name, name="first")
    spec = GateSpec(variant.name, {"size_reduction": gates.SizeReduction(min=0.0, against="pruned/tflite-fp32")})
    (result,) = evaluate_gates([spec], [alone, chain])
    assert result.measured == pytest.approx(1 - 4000 / 1800)


def test_all_passed_needs_every_gate(chain: MeasuredProof) -> None:
    good = one(chain, "size", gates.Size(max=300))
    bad = one(chain, "size", gates.Size(max=200))
    assert all_passed([])
    assert all_passed([good])
    assert not all_passed([good, bad])
