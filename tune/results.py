"""What a study has found: its trials as data, the best of them, the Pareto front, tables and exports."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from edge_runtime.nearest import suggestion
from tune.errors import EveryTrialFailed, TuneError, UsageError
from tune.judging import COSTS, CUT, REASON
from tune.lease import CAUSE, superseded
from tune.multi_objective import front
from tune.settings import StudySettings
from tune.study import OpenStudy

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

State = Literal["complete", "cut", "failed", "running", "waiting", "retried"]
FORMATS = ("csv", "json")


@dataclass(frozen=True)
class Limit:
    """The largest value of an objective (or the smallest, with `at_most` false) that a choice may have."""

    value: float
    at_most: bool = True


@dataclass(frozen=True)
class Record:
    """One trial. `values` are the objectives that are known; `steps` the reports; `seconds` the wall time, None while

    it runs. `reason` says why it was cut, `cause` why it failed. A `retried` trial lost its worker: another trial
    stands for it.
    """

    number: int
    state: State
    params: dict[str, Any]
    values: dict[str, float]
    steps: int
    seconds: float | None
    reason: str | None = None
    cause: str | None = None


def records(opened: OpenStudy) -> tuple[Record, ...]:
    """Every trial by number."""
    trials = opened.study.get_trials(deepcopy=False)
    again = superseded(trials)
    return tuple(_record(trial, opened.settings, trial.number in again) for trial in trials)


def _record(trial: FrozenTrial, settings: StudySettings, retried: bool) -> Record:
    names = [objective.name for objective in settings.objectives]
    values = dict(trial.user_attrs.get(COSTS, {}))
    if trial.values is not None:
        # A pruned trial of one objective has its last report as value; of several, what was measured first.
        values |= dict(zip(names, trial.values, strict=False))
    duration = trial.duration.total_seconds() if trial.duration is not None else None
    return Record(
        number=trial.number,
        state="retried" if retried else _state(trial),
        params=dict(trial.params) or dict(trial.system_attrs.get("fixed_params", {})),
        values=values,
        steps=max(trial.intermediate_values, default=0),
        seconds=duration,
        reason=trial.user_attrs.get(REASON),
        cause=trial.user_attrs.get(CAUSE),
    )


def _state(trial: FrozenTrial) -> State:
    from optuna.trial import TrialState

    if CUT in trial.user_attrs:
        return "cut"
    states: dict[Any, State] = {
        TrialState.COMPLETE: "complete",
        TrialState.PRUNED: "cut",
        TrialState.FAIL: "failed",
        TrialState.RUNNING: "running",
        TrialState.WAITING: "waiting",
    }
    return states[trial.state]


def complete(found: Sequence[Record]) -> list[Record]:
    """The trials that ended with all their values."""
    return [record for record in found if record.state == "complete"]


def pareto(found: Sequence[Record], settings: StudySettings) -> list[Record]:
    """Complete trials that no other one beats in every objective, best in the first objective first."""
    ended = complete(found)
    points = [_signed(record, settings) for record in ended]
    return sorted((ended[index] for index in front(points)), key=lambda record: _signed(record, settings))


def best(found: Sequence[Record], settings: StudySettings, pick: Mapping[str, Limit] | None = None) -> Record:
    """The complete trial that is best in the first objective among those within the limits of `pick`.

    Raises EveryTrialFailed with the first cause, UsageError for a limit on no objective, and TuneError when no trial
    has ended or none is within the limits (saying how near they came).
    """
    pick = pick or {}
    names = [objective.name for objective in settings.objectives]
    unknown = [name for name in pick if name not in names]
    if unknown:
        raise UsageError([f"pick: no objective is called '{name}'{suggestion(name, names)}" for name in unknown])
    ended = complete(found)
    if not ended:
        raise _nothing(found, settings)
    within = [record for record in ended if all(_keeps(record.values[name], limit) for name, limit in pick.items())]
    if not within:
        nearest = ", ".join(
            f"{name} {(min if limit.at_most else max)(record.values[name] for record in ended):.6g}"
            for name, limit in pick.items()
        )
        raise TuneError(f"no trial of '{settings.name}' is within the limits of `pick`; the nearest values: {nearest}")
    return min(within, key=lambda record: (_signed(record, settings), record.number))


def _keeps(value: float, limit: Limit) -> bool:
    return value <= limit.value if limit.at_most else value >= limit.value


def _signed(record: Record, settings: StudySettings) -> tuple[float, ...]:
    """The values so that lower is better."""
    return tuple(
        -record.values[o.name] if o.direction == "maximize" else record.values[o.name] for o in settings.objectives
    )


def _nothing(found: Sequence[Record], settings: StudySettings) -> TuneError:
    failed = [record for record in found if record.state == "failed" and record.cause is not None]
    if failed and not any(record.state in ("running", "waiting", "cut") for record in found):
        return EveryTrialFailed(
            f"every trial of '{settings.name}' failed ({len(failed)}); the first one of them:\n{failed[0].cause}"
        )
    return TuneError(f"no trial of '{settings.name}' has a result yet ({counts_text(found)})")


def counts_text(found: Sequence[Record]) -> str:
    """`12 complete, 3 cut, 1 running`."""
    counts = Counter(record.state for record in found)
    order: tuple[State, ...] = ("complete", "cut", "failed", "running", "waiting", "retried")
    return ", ".join(f"{counts[state]} {state}" for state in order if counts[state]) or "no trials"


def status_text(opened: OpenStudy) -> str:
    """The study in a few lines: counts, steps trained, the best trial or the front."""
    found, settings = records(opened), opened.settings
    lines = [f"{settings.name}: {counts_text(found)}; {sum(record.steps for record in found)} steps reported"]
    if complete(found):
        if len(settings.objectives) == 1:
            lines += ["best:", *table([best(found, settings)], settings)]
        else:
            lines += ["Pareto front:", *table(pareto(found, settings), settings)]
    failed = [record for record in found if record.cause]
    if failed:
        lines.append(f"first failure: trial {failed[0].number}: {failed[0].cause}")
    return "\n".join(lines)


def table(found: Sequence[Record], settings: StudySettings) -> list[str]:
    """Trials as lines of aligned columns: number, objectives, parameters, steps."""
    names = [objective.name for objective in settings.objectives]
    params = list(settings.space.parameters)
    rows = [["trial", *names, *params, "steps"]]
    for record in found:
        values = [f"{record.values[name]:.6g}" if name in record.values else "-" for name in names]
        rows.append([str(record.number), *values, *(_shown(record.params.get(p)) for p in params), str(record.steps)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def export(opened: OpenStudy, form: str) -> str:
    """Every trial as CSV or JSON text. Raises UsageError for another format."""
    found = records(opened)
    if form == "json":
        document = {"schema": 1, "study": opened.settings.to_json(), "trials": [asdict(record) for record in found]}
        return json.dumps(document, indent=1, allow_nan=True) + "\n"
    if form != "csv":
        raise UsageError([f"format: unknown format '{form}'{suggestion(form, FORMATS)}"])
    names = [objective.name for objective in opened.settings.objectives]
    params = list(opened.settings.space.parameters)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["number", "state", *names, *params, "steps", "seconds", "reason", "cause"])
    for record in found:
        writer.writerow(
            [
                record.number, record.state, *(record.values.get(name) for name in names),
                *(record.params.get(name) for name in params),
                record.steps, record.seconds, record.reason, record.cause,
            ]
        )  # fmt: skip
    return stream.getvalue()


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
