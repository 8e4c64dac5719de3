"""docs/report.md names every field of the models, and none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from compress.errors import ExitCode
from compress.report import model
from compress.report.build import STATUS, ReportInputs, build_report, write_report
from tests.docs.pages import blocks, read
from tests.report.made_up import chain_proof, recipe

SECTIONS: dict[str, type[model.Record]] = {
    "The report": model.Report,
    "stages": model.StageRecord,
    "torch_variants": model.TorchRecord,
    "variants": model.Measurement,
    "waterfall": model.Waterfall,
    "latency_ms": model.Latency,
    "int8_share": model.Int8Shares,
    "parity": model.ParityRecord,
    "comparisons": model.Comparison,
    "relative_to_torch": model.QualityChange,
    "machines": model.Machine,
    "gates": model.GateResult,
    "reference": model.Verdict,
    "measurements.json": model.Measurements,
}


def section(title: str) -> str:
    parts = re.split(r"^#{2,3} (.+)$", read("report.md"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title]


def documented(title: str) -> list[str]:
    """The names in the first column of the section's table."""
    rows = re.findall(r"^\| (`.+?`) \|", section(title), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_has_a_row_for_every_field_and_for_nothing_else(title: str) -> None:
    fields = [info.alias or name for name, info in SECTIONS[title].model_fields.items()]
    assert sorted(documented(title)) == sorted(fields)


def test_every_record_has_a_section() -> None:
    records = {
        record
        for record in vars(model).values()
        if isinstance(record, type) and issubclass(record, model.Record) and record is not model.Record
    }
    assert records == set(SECTIONS.values())


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("The report", model.Status),
        ("comparisons", model.Change),
        ("gates", model.Unit),
        ("reference", model.Outcome),
    ],
)
def test_every_word_that_a_field_can_hold_is_named(title: str, words: object) -> None:
    named = re.findall(r"`([^`]+)`", section(title))
    assert set(get_args(words)) <= set(named)


def test_statuses_and_exit_codes_stand_in_the_same_order() -> None:
    statuses, codes = (re.search(rf"^\| `{name}` \| (.+) \|$", section("The report"), re.MULTILINE) for name in NAMES)
    assert statuses
    assert codes
    written = dict(zip(re.findall(r"`([^`]+)`", statuses[1]), re.findall(r"\d+", codes[1]), strict=True))
    assert written == {status: str(int(code)) for code, status in STATUS.items()}


NAMES = ("status", "exit_code")


def test_the_snippet_reads_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = build_report(ReportInputs(recipe(), ExitCode.OK, {}, [chain_proof(tmp_path)]))
    write_report(report, tmp_path)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("report.md", "python")
    exec(compile(block.text, str(block), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    kept = [key for key, file in report.variants.items() if file.relative and file.relative.latency_change == "better"]
    kept = [key for key in kept if getattr(report.variants[key].relative, "quality_change", None) != "worse"]
    assert [line.partition(":")[0] for line in lines] == kept
    assert "student/tflite-fp32" in kept


def test_the_percentile_that_needs_many_runs_is_documented_with_their_number() -> None:
    from edge_runtime.benchmark import _TAIL_SAMPLES

    assert f"at least {_TAIL_SAMPLES * 100} runs" in section("latency_ms")
