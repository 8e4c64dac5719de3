from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from compress.recipe.gates import GATES, Latency, QualityDrop, Size, SizeReduction, gate_references

VALID: dict[str, dict[str, Any]] = {
    "quality": {"metric": "accuracy", "min": "97%"},
    "quality_drop": {"metric": "accuracy", "max": "1%"},
    "class_quality_drop": {"metric": "accuracy", "max": "5%"},
    "size_reduction": {"min": "91.7%"},
    "latency_reduction": {"min": "55%"},
    "parameters_reduction": {"min": 0.5},
    "macs_reduction": {"min": 0.4},
    "latency": {"max": "8 ms"},
    "size": {"max": "4 MiB"},
    "peak_memory": {"max": "64 MiB"},
    "int8_share": {"weights": "95%", "macs": "95%"},
    "transposes": {"max": 0},
}


def test_every_gate_has_a_valid_form_and_says_what_it_reads() -> None:
    assert set(VALID) == set(GATES)
    for name, model in GATES.items():
        model.model_validate(VALID[name])
        assert model.reads
        assert model.__doc__


@pytest.mark.parametrize("name", GATES)
def test_unknown_keys_are_errors(name: str) -> None:
    with pytest.raises(ValidationError, match="maximum"):
        GATES[name].model_validate(VALID[name] | {"maximum": 1})


@pytest.mark.parametrize("name", sorted(set(GATES) - {"int8_share"}))
def test_a_gate_without_a_limit_is_an_error(name: str) -> None:
    limits = {key: value for key, value in VALID[name].items() if key not in ("min", "max")}
    with pytest.raises(ValidationError, match="Field required"):
        GATES[name].model_validate(limits)


def test_a_share_gate_needs_at_least_one_share() -> None:
    with pytest.raises(ValidationError, match="`weights`, `macs` or both"):
        GATES["int8_share"].model_validate({})


def test_percent_is_a_fraction_inside() -> None:
    assert SizeReduction.model_validate({"min": "91.7%"}).min == 0.917


def test_durations_are_seconds_and_sizes_bytes_inside() -> None:
    assert Latency.model_validate({"max": "8 ms"}).max == 0.008
    assert Size.model_validate({"max": "4 MiB"}).max == 4 * 2**20


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("size_reduction", {"min": "191%"}),
        ("size_reduction", {"min": "lots"}),
        ("latency", {"max": "8 parsecs"}),
        ("latency", {"max": 0}),
        ("size", {"max": True}),
        ("transposes", {"max": -1}),
        ("transposes", {"max": 1.5}),
    ],
)
def test_limits_that_make_no_sense_are_errors(name: str, limit: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GATES[name].model_validate(limit)


def test_only_a_gate_against_another_file_refers_to_one() -> None:
    assert gate_references(QualityDrop(metric="accuracy", max=0.01)) == ()
    assert gate_references(QualityDrop(metric="accuracy", max=0.01, against="a/onnx-fp32")) == ("a/onnx-fp32",)
    assert gate_references(Size(max=1)) == ()
