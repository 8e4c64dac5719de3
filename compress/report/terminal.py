"""What the command line prints of a report: the summary of one run."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from compress.errors import RecipeError
from compress.report import text
from compress.report.model import Report


def load_report(path: Path) -> Report:
    """Reads report.json, or the one in a run's folder. Raises RecipeError when there is none, or it is damaged."""
    file = path / "report.json" if path.is_dir() else path
    try:
        return Report.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise RecipeError([f"{path}: expected a run's folder or its report.json ({error.strerror})"]) from error
    except (ValueError, ValidationError) as error:
        raise RecipeError([f"{file}: not a report of schema 1: {str(error).splitlines()[0]}"]) from error


def render_summary(report: Report) -> str:
    """A few lines: the headline, INT8 that did not pay, every gate, and the status last."""
    lines = [text.headline(report)] if report.variants else []
    lines += [*text.strays(report), *text.losses(report)]
    for gate in report.gates:
        measured = "not measured" if gate.measured is None else text.number(gate.measured, gate.unit)
        bound = "at least" if gate.limit_is == "min" else "at most"
        name = gate.gate + (f" ({gate.metric})" if gate.metric else "")
        line = f"gate {gate.of} {name}: {measured}, {bound} {text.number(gate.limit, gate.unit)}: "
        line += "passed" if gate.passed else "FAILED"
        line += ", unresolved" if gate.unresolved else ""
        lines.append(line + (f" ({gate.reason})" if gate.reason and gate.measured is None else ""))
    counts = dict.fromkeys(("beats", "reproduces", "falls short"), 0)
    for verdict in report.reference:
        if verdict.verdict in counts:
            counts[verdict.verdict] += 1
    if any(counts.values()):
        lines.append(
            "published claims: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        )
    error = report.error if report.error and report.status != "gate failed" else ""
    lines.append(f"{report.name}: {report.status}" + (f": {error}" if error else ""))
    return "\n".join(lines)
