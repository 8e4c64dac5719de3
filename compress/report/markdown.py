"""report.md: what a person reads in one minute. Everything in it stands in report.json too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compress.report import text
from compress.report.model import Comparison, GateResult, Measurement, Report, Verdict

_STATUS = {
    "passed": "passed",
    "gate failed": "a gate failed",
    "stage failed": "a stage failed",
    "environment": "the environment is not fit",
    "interrupted": "interrupted",
    "usage": "the recipe is wrong",
}


def render_markdown(report: Report) -> str:
    """The whole page. Sections without content are left out."""
    parts = [
        f"# {report.name}: {_STATUS[report.status]}",
        _error(report),
        f"**{text.headline(report)}**" if report.variants else "Nothing was measured.",
        *_section("Gates", _gates(report.gates)),
        *_section("Files", _files(report)),
        *_section("Where quality goes", _waterfall(report)),
        *_section("Training for INT8", _quantized(report)),
        *_section("Against published claims", _reference(report.reference)),
        *_section("Stages", _stages(report)),
        *_section("Environment", _environment(report)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the rest are figures."""
    if not rows:
        return ""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (header, rule, *rows))


def _error(report: Report) -> str:
    """The cause is the last line of an error; gates say for themselves why they failed."""
    if report.error is None or report.status == "gate failed":
        return ""
    *before, cause = report.error.strip().splitlines() or ["no message"]
    return "\n".join([f"**Error:** {cause}", *(f"- {line.strip()}" for line in before)]).replace("\n", "\n\n", 1)


def _section(title: str, body: str) -> list[str]:
    return [f"## {title}", body] if body else []


def _gates(gates: Sequence[GateResult]) -> str:
    rows = [
        [
            gate.of,
            gate.gate + (f" ({gate.metric})" if gate.metric else ""),
            f"{'at least' if gate.limit_is == 'min' else 'at most'} {text.number(gate.limit, gate.unit)}",
            text.NONE if gate.measured is None else text.number(gate.measured, gate.unit),
            _gate_interval(gate),
            ("passed" if gate.passed else "**failed**") + (", unresolved" if gate.unresolved else ""),
        ]
        for gate in gates
    ]
    notes = [f"- {gate.of}, {gate.gate}: {gate.reason}" for gate in gates if gate.reason]
    if any(gate.unresolved for gate in gates):
        notes.append(
            "- unresolved: the limit lies inside the interval; the samples cannot tell on which side the truth is"
        )
    return "\n\n".join(
        part
        for part in (table(["of", "gate", "wanted", "measured", "95 % interval", "result"], rows), "\n".join(notes))
        if part
    )


def _gate_interval(gate: GateResult) -> str:
    if gate.interval is None:
        return ""
    return f"{text.number(gate.interval[0], gate.unit)} to {text.number(gate.interval[1], gate.unit)}"


def _files(report: Report) -> str:
    rows = [_file_row(key, entry) for key, entry in report.variants.items()]
    if not rows:
        return ""
    any_entry = next(iter(report.variants.values()))
    header = [
        "file",
        "engine",
        "size",
        "size change",
        any_entry.metric,
        "points",
        "median",
        "latency",
        "to own fp32",
        "INT8 weights",
    ]
    notes = [f"- {sentence}" for sentence in (*text.strays(report), *text.losses(report), *_fastest(report))]
    about = (
        f"Changes are against {any_entry.baseline}, latencies from one interleaved run at {any_entry.threads} thread"
        f"{'s' if any_entry.threads != 1 else ''}; brackets are 95 % intervals, and = marks no difference. "
        f"Quality is of the file in its engine, on {any_entry.samples} test samples, paired."
    )
    return "\n\n".join(part for part in (about, table(header, rows), "\n".join(notes)) if part)


def _file_row(key: str, entry: Measurement) -> list[str]:
    relative, own = entry.relative, entry.relative_to_float
    return [
        key,
        f"{entry.engine} ({entry.delegate})",
        text.size(entry.bytes),
        text.signed(relative.bytes) if relative else "baseline",
        text.percent(entry.quality[entry.metric]),
        _mark(relative.quality_change, f"{text.points(relative.quality)} {text.interval(relative.quality_interval, 2)}")
        if relative
        else "",
        text.milliseconds(entry.latency_ms.median) if entry.latency_ms else text.NONE,
        _latency(relative),
        _latency(own),
        text.percent(entry.int8_share.weights, 1) if entry.int8_share.weights else "",
    ]


def _latency(comparison: Comparison | None) -> str:
    if comparison is None or comparison.latency is None:
        return ""
    figure = f"{text.signed(comparison.latency)} {text.interval(comparison.latency_interval)}"
    return _mark(comparison.latency_change, figure)


def _mark(change: str | None, figure: str) -> str:
    return f"= {figure}" if change == "no difference" else figure


def _fastest(report: Report) -> list[str]:
    """The other baseline of an INT8 file, where it is another: the fastest engine's fp32 of the same model."""
    lines = []
    for key, entry in report.variants.items():
        own, fastest = entry.relative_to_float, entry.relative_to_fastest_float
        if entry.precision.startswith("int8") and fastest is not None and (own is None or own.of != fastest.of):
            lines.append(
                f"{key} against the fastest fp32 of its model, {fastest.of} on {report.variants[fastest.of].engine}: "
                f"{text.latency_words(fastest)}."
            )
    return lines


def _waterfall(report: Report) -> str:
    def cell(value: float | None) -> str:
        return text.NONE if value is None else text.percent(value)

    rows = [
        [
            key,
            cell(entry.waterfall.torch),
            cell(entry.waterfall.float_file),
            cell(entry.waterfall.file),
            f"{entry.parity.signal_to_noise_db:.0f} dB",
            _worst_class(report, entry),
        ]
        for key, entry in report.variants.items()
    ]
    return table(["file", "torch model", "fp32 file", "this file", "signal to noise", "class that lost most"], rows)


def _quantized(report: Report) -> str:
    """What training with fake quantization gained over quantization alone, judged on validation."""
    noted = {name: record.notes.get("quantization") for name, record in report.torch_variants.items()}
    rows = [
        [
            name,
            entry["metric"],
            *(text.percent(entry[key]) for key in ("parent", "ptq", "qat")),
            f"**{entry['verdict']}**" if entry["verdict"] == "no gain" else entry["verdict"],
        ]
        for name, entry in noted.items()
        if entry is not None
    ]
    about = "Of fake-quantized networks in torch, on the validation split; what the files score stands above."
    header = ["variant", "metric", "float parent", "quantized, not trained", "trained", "verdict"]
    return f"{about}\n\n{table(header, rows)}" if rows else ""


def _worst_class(report: Report, entry: Measurement) -> str:
    """The class that lost most against the baseline, in points."""
    base = report.variants.get(entry.baseline)
    if base is None or base is entry or entry.metric not in entry.per_class or entry.metric not in base.per_class:
        return ""
    before, now = base.per_class[entry.metric], entry.per_class[entry.metric]
    changes = {label: now[label] - before[label] for label in now if label in before}
    if not changes or min(changes.values()) >= 0:
        return "none"
    worst = min(changes, key=lambda label: changes[label])
    return f"{worst} {text.points(changes[worst])}"


def _reference(verdicts: Sequence[Verdict]) -> str:
    answered = [verdict for verdict in verdicts if verdict.verdict != "not measured"]
    rows = [
        [
            verdict.claim,
            _claimed(verdict),
            f"{_figure(verdict)(verdict.measured)} {_span(verdict)}" if verdict.measured is not None else text.NONE,
            verdict.of or "",
            verdict.against or "",
            f"**{verdict.verdict}**" + (f" ({verdict.note})" if verdict.note else ""),
        ]
        for verdict in answered
    ]
    missing = len({verdict.claim for verdict in verdicts} - {verdict.claim for verdict in answered})
    commands = dict.fromkeys(verdict.command for verdict in answered if verdict.command is not None)
    notes = [f"Measured by `{command}`." for command in commands]
    if any(verdict.extension for verdict in answered):
        notes.append(
            "The claims speak of language models; measured on another task, these rows are the product's own extension."
        )
    if missing:
        notes.append(f"{missing} further claims were not measured by this recipe (report.json says how each is).")
    return "\n\n".join(
        part
        for part in (table(["claim", "claimed", "measured", "of", "against", "verdict"], rows), " ".join(notes))
        if part
    )


def _figure(verdict: Verdict) -> Callable[[float], str]:
    if verdict.metric is not None:
        return lambda value: f"{text.points(value)} points"
    return text.signed


def _claimed(verdict: Verdict) -> str:
    if isinstance(verdict.claimed, tuple):
        return f"{_figure(verdict)(verdict.claimed[0])} to {_figure(verdict)(verdict.claimed[1])}"
    return text.NONE if verdict.claimed is None else _figure(verdict)(verdict.claimed)


def _span(verdict: Verdict) -> str:
    if verdict.metric is None and verdict.interval is not None and verdict.interval[0] == verdict.interval[1]:
        return "(exact)"
    return text.interval(verdict.interval, 2 if verdict.metric else 1)


def _stages(report: Report) -> str:
    rows = [
        [
            f"{stage.id} ({stage.use})",
            ", ".join(stage.results) if len(stage.results) <= 2 else f"{len(stage.results)} results",
            "failed" if stage.error else "from the store" if stage.cached else "done",
            text.duration(stage.seconds) if stage.seconds is not None else text.NONE,
        ]
        for stage in report.stages
    ]
    return table(["stage", "results", "how", "time"], rows)


def _environment(report: Report) -> str:
    lines = [f"- {key}: {_flat(value)}" for key, value in report.environment.items()]
    for proof, machine in report.machines.items():
        load = "unknown" if machine.load_before is None else f"{machine.load_before:.2f}"
        after = "unknown" if machine.load_after is None else f"{machine.load_after:.2f}"
        lines.append(
            f"- measured by {proof} on {machine.processor}, {machine.cores} cores, load {load} before and {after} after"
            + (f", governor {machine.governor}" if machine.governor else "")
        )
    if report.seconds is not None:
        lines.append(f"- time in all: {text.duration(report.seconds)}")
    return "\n".join(lines)


def _flat(value: object) -> str:
    if isinstance(value, dict):
        known = {key: entry for key, entry in value.items() if entry not in (None, {}, [])}
        return ", ".join(f"{_words(key)} {_entry(key, entry)}" for key, entry in known.items())
    if isinstance(value, list | tuple):
        return ", ".join(_flat(entry) for entry in value)
    return str(value)


def _entry(key: str, value: object) -> str:
    return text.size(value) if key.endswith("_bytes") and isinstance(value, int) else _flat(value)


def _words(key: str) -> str:
    return key.removesuffix("_bytes").replace("_", " ")
