"""From what a run left behind to its report: gathers, computes the verdicts, and writes report.json, .md and .html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compress.errors import ExitCode
from compress.models.variant import TorchVariant, Variant
from compress.recipe.schema import Recipe
from compress.report.claims import load_claims
from compress.report.html import render_html
from compress.report.markdown import render_markdown
from compress.report.model import GateResult, Measurement, Report, StageRecord, Status, TorchRecord
from compress.report.proof import MeasuredProof, write_text
from compress.report.verdicts import Techniques, verdicts

STATUS: dict[ExitCode, Status] = {
    ExitCode.OK: "passed",
    ExitCode.USAGE: "usage",
    ExitCode.STAGE_FAILED: "stage failed",
    ExitCode.GATE_FAILED: "gate failed",
    ExitCode.ENVIRONMENT: "environment",
    ExitCode.INTERRUPTED: "interrupted",
}


@dataclass(frozen=True)
class ReportInputs:
    """What the runner knows when a run ends, well or not.

    `variants` are those that exist, by name. `paths` gives, by name of a file variant, where the run's folder has the
    file (relative to it). `environment` is JSON-able: versions, hardware, choices, as in the lock manifest. `data`
    is JSON-able too: the data's digest and its splits. `started` is ISO 8601 in UTC.
    """

    recipe: Recipe
    exit_code: ExitCode
    variants: Mapping[str, Variant]
    proofs: Sequence[MeasuredProof] = ()
    gates: Sequence[GateResult] = ()
    stages: Sequence[StageRecord] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    started: str | None = None
    seconds: float | None = None


def build_report(inputs: ReportInputs) -> Report:
    """Puts a report together. Pure: reads no clock and no file except the shipped reference.

    Raises RecipeError when the recipe names a reference that is not shipped.
    """
    reference = inputs.recipe.reference
    claims = load_claims(reference) if reference is not None else ()
    techniques = Techniques.of(inputs.recipe, inputs.variants)
    torch = {name: variant for name, variant in inputs.variants.items() if isinstance(variant, TorchVariant)}
    return Report(
        name=inputs.recipe.name,
        status=STATUS[inputs.exit_code],
        exit_code=int(inputs.exit_code),
        error=inputs.error,
        started=inputs.started,
        seconds=inputs.seconds,
        recipe=inputs.recipe.canonical,
        environment=dict(inputs.environment),
        stages=tuple(inputs.stages),
        data=dict(inputs.data),
        torch_variants={name: _torch_record(variant) for name, variant in torch.items()},
        variants=_measured(inputs),
        machines={proof.measurements.proof: proof.measurements.machine for proof in inputs.proofs},
        gates=tuple(inputs.gates),
        reference=verdicts(claims, inputs.recipe, techniques, inputs.proofs),
    )


def write_report(report: Report, directory: Path) -> None:
    """Writes report.json, report.md and report.html into `directory`, each atomically."""
    write_text(directory / "report.json", report.model_dump_json(indent=1) + "\n")
    write_text(directory / "report.md", render_markdown(report))
    write_text(directory / "report.html", render_html(report))


def _torch_record(variant: TorchVariant) -> TorchRecord:
    return TorchRecord(
        parameters=variant.parameters,
        macs=variant.macs,
        lineage=variant.lineage,
        validation=variant.validation,
        notes=variant.notes,
    )


def _measured(inputs: ReportInputs) -> dict[str, Measurement]:
    """Every measurement by key; a file that a second benchmark measured again is told apart by the proof's name."""
    measured: dict[str, Measurement] = {}
    for proof in inputs.proofs:
        for key, measurement in proof.measurements.variants.items():
            path = inputs.paths.get(measurement.name, measurement.path)
            unique = key if key not in measured else f"{key} ({proof.measurements.proof})"
            measured[unique] = measurement.model_copy(update={"path": path})
    return measured
