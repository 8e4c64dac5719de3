"""report.json is an interface: these tests fail when a field that other tools read goes away or changes its meaning."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from compress.errors import ExitCode
from compress.report.build import ReportInputs, build_report
from compress.report.model import Report
from compress.report.proof import MeasuredProof
from tests.report.made_up import recipe

VARIANT_FIELDS = {
    "format", "precision", "engine", "threads", "path", "sha256", "bytes", "parameters", "macs", "quality",
    "quality_interval", "per_class", "waterfall", "latency_ms", "instructions", "peak_memory_bytes", "int8_share",
    "transposes", "delegate", "baseline", "relative",
}  # fmt: skip
RELATIVE_FIELDS = {
    "bytes", "parameters", "latency", "latency_interval", "quality", "quality_interval",
}  # fmt: skip


@pytest.fixture
def document(chain: MeasuredProof) -> dict[str, object]:
    report = build_report(ReportInputs(recipe(), ExitCode.OK, {}, [chain]))
    loaded: dict[str, object] = json.loads(report.model_dump_json())
    return loaded


def test_the_document_has_the_fields_that_other_tools_read(document: dict[str, object]) -> None:
    assert document["schema"] == 1
    assert document["status"] == "passed"
    assert {"recipe", "environment", "variants", "gates", "reference"} <= set(document)
    variants = document["variants"]
    assert isinstance(variants, dict)
    variant = variants["student/tflite-int8"]
    assert set(variant) >= VARIANT_FIELDS
    assert set(variant["relative"]) >= RELATIVE_FIELDS
    assert set(variant["waterfall"]) == {"torch", "float_file", "file"}
    assert set(variant["latency_ms"]) >= {"median", "p90", "p95", "runs"}
    assert set(variant["int8_share"]) == {"weights", "macs"}


def test_the_document_satisfies_its_own_json_schema_field_by_field(document: dict[str, object]) -> None:
    schema = Report.model_json_schema()
    assert set(document) == set(schema["properties"])
    assert set(schema["required"]) <= set(document)
    variants = document["variants"]
    assert isinstance(variants, dict)
    for variant in variants.values():
        assert set(variant) == set(schema["$defs"]["Measurement"]["properties"])


def test_a_report_reads_back_equal(document: dict[str, object]) -> None:
    report = Report.model_validate(document)
    assert json.loads(report.model_dump_json()) == document


def test_a_misspelt_field_is_an_error(document: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="statuss"):
        Report.model_validate(document | {"statuss": "passed"})


def test_another_schema_number_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="schema"):
        Report.model_validate(document | {"schema": 2})


def test_shares_are_fractions(document: dict[str, object]) -> None:
    variants = document["variants"]
    assert isinstance(variants, dict)
    for variant in variants.values():
        assert 0 <= variant["quality"]["accuracy"] <= 1
        assert 0 <= variant["int8_share"]["weights"] <= 1
