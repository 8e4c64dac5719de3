"""The end of a run, good or bad: gates, lock manifest, report, exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compress.errors import EdgepressError, EnvironmentProblem, ExitCode
from compress.models.variant import Proof
from compress.pipeline.events import EventLog
from compress.pipeline.failures import as_failure
from compress.pipeline.gates import evaluate_gates
from compress.pipeline.lock import environment, manifest, write_manifest
from compress.pipeline.reached import Reached
from compress.recipe.schema import Recipe
from compress.report.model import GateResult
from compress.report.proof import MeasuredProof, read_proof


@dataclass(frozen=True)
class Ending:
    """`error` is what the user should read, the cause last; None when the run did what it was asked for.

    `summary` is the report in a few lines, empty when there is none.
    """

    exit_code: ExitCode
    error: str | None
    gates: tuple[GateResult, ...] = ()
    summary: str = ""


@dataclass(frozen=True)
class Course:
    """What happened until the end. `paths` is where the run folder has each file variant; `started` is ISO 8601."""

    recipe: Recipe
    reached: Reached
    folder: Path
    paths: Mapping[str, str]
    started: str
    seconds: float


def finish(course: Course, error: EdgepressError | KeyboardInterrupt | None, log: EventLog) -> Ending:
    """Judges the gates and writes `lock.json` and the report of whatever exists.

    A first error keeps its exit code; when only the report fails, that is the error.
    """
    ending, proofs = _judge(course.recipe, course.reached, error)
    for gate in ending.gates:
        log("gate", f"{gate.of} {gate.gate}: {'passed' if gate.passed else 'failed'}", **gate.model_dump(mode="json"))
    try:
        return replace(ending, summary=_write(course, ending, proofs))
    except Exception as problem:
        failure = as_failure(problem, "writing the report", course.folder)
        if ending.error is None:
            return Ending(failure.exit_code, str(failure), ending.gates)
        log("warning", str(failure))
    return ending


def _judge(
    recipe: Recipe, reached: Reached, error: EdgepressError | KeyboardInterrupt | None
) -> tuple[Ending, tuple[MeasuredProof, ...]]:
    if isinstance(error, KeyboardInterrupt):
        return Ending(ExitCode.INTERRUPTED, "interrupted"), ()
    try:
        proofs = tuple(read_proof(item.directory) for item in reached.variants.values() if isinstance(item, Proof))
        gates = evaluate_gates(recipe.gates, proofs)
    except Exception as problem:
        failure = error or as_failure(problem, "reading the measurements", Path.cwd())
        return Ending(_code(failure), str(failure)), ()
    if error is not None:
        return Ending(_code(error), str(error), gates), proofs
    failed = [gate for gate in gates if not gate.passed]
    if failed:
        return Ending(ExitCode.GATE_FAILED, _gates_text(failed, len(gates)), gates), proofs
    return Ending(ExitCode.OK, None, gates), proofs


def _code(error: EdgepressError) -> ExitCode:
    return ExitCode.ENVIRONMENT if isinstance(error, EnvironmentProblem) else error.exit_code


def _gates_text(failed: Sequence[GateResult], count: int) -> str:
    lines = [f"{len(failed)} of {count} gates failed:"]
    lines += [f"  {gate.of} {gate.gate}: {gate.reason}" for gate in failed]
    return "\n".join(lines)


def _write(course: Course, ending: Ending, proofs: Sequence[MeasuredProof]) -> str:
    """Writes the manifest and the report, and returns the summary."""
    from compress.report.build import ReportInputs, build_report, write_report
    from compress.report.terminal import render_summary

    reached = course.reached
    lock = manifest(course.recipe, reached)
    write_manifest(lock, course.folder / "lock.json")
    inputs = ReportInputs(
        recipe=course.recipe,
        exit_code=ending.exit_code,
        variants=reached.variants,
        proofs=proofs,
        gates=ending.gates,
        stages=tuple(reached.stages),
        environment=environment(lock),
        data=reached.data,
        paths=course.paths,
        error=ending.error,
        started=course.started,
        seconds=course.seconds,
    )
    report = build_report(inputs)
    write_report(report, course.folder)
    return render_summary(report)
