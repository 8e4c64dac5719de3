"""Raw samples of a figure: what a benchmark script writes, and what `check.py` computes the figure from.

One JSON file for each figure, `raw/<table>/<figure>.json`; README.md beside this file describes it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edge_runtime.benchmark import ratio
from edge_runtime.files import write_atomically
from edge_runtime.metrics import Interval, bootstrap_interval, paired_bootstrap_interval

HERE = Path(__file__).parent
Kind = Literal[
    "latency-ratio",
    "correctness-difference",
    "relative-change",
    "times-smaller",
    "durations",
    "duration-difference",
    "count",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
_PAIRED: frozenset[Kind] = frozenset(KINDS) - {"durations", "count"}
_FIGURE = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
_LEAST_FOR_INTERVAL = 5
"""Fewer durations than this give their range instead of a bootstrap interval."""


class RawSamplesError(Exception):
    """A raw file that cannot be read or does not say what it must. The message names the file."""


@dataclass(frozen=True)
class Raw:
    """One figure's samples. `value` and `baseline` are as `kind` wants them (README.md)."""

    figure: str
    kind: Kind
    value: Any
    baseline: Any
    engine: str
    cpu: str
    seed: int
    command: str
    commit: str


@dataclass(frozen=True)
class Result:
    """What follows from raw samples: the figure, its 95 % interval (one point where it is exact), and their number."""

    measured: float
    interval: Interval
    n: int


def compute(raw: Raw) -> Result:
    """The figure from its samples. Raises RawSamplesError when they do not have the form of their kind."""
    try:
        return _COMPUTE[raw.kind](raw)
    except (ValueError, TypeError, ZeroDivisionError, IndexError) as error:
        raise RawSamplesError(f"{raw.figure}: the samples are not those of a {raw.kind}: {error}") from error


def write(
    table: str,
    figure: str,
    kind: Kind,
    value: Any,
    baseline: Any = None,
    *,
    command: str,
    engine: str = "",
    seed: int = 0,
    cpu: str | None = None,
    commit: str | None = None,
    root: Path = HERE / "raw",
) -> Path:
    """Writes the samples of one figure; what was there is replaced.

    `cpu` defaults to this machine's, `commit` to the checkout's, with `+changes` where it is not clean. Raises
    RawSamplesError when no figure follows from the samples.
    """
    if not _FIGURE.fullmatch(figure):
        raise RawSamplesError(f"{figure!r} is no figure's name: small letters and digits, with dots and dashes between")
    raw = Raw(
        figure=figure,
        kind=kind,
        value=_json(value, kind),
        baseline=_json(baseline, kind),
        engine=engine,
        cpu=cpu if cpu is not None else _processor(),
        seed=seed,
        command=command,
        commit=commit if commit is not None else _commit(),
    )
    compute(raw)
    path = root / table / f"{figure}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _dump(raw).encode("utf-8"))
    return path


def read(path: Path) -> Raw:
    """Reads a raw file. Raises RawSamplesError when it is damaged, has another form, or another figure's name."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        raw = Raw(**content)
    except (OSError, ValueError, TypeError) as error:
        raise RawSamplesError(f"{path}: not a file of raw samples: {error}") from error
    if raw.kind not in KINDS:
        raise RawSamplesError(f"{path}: unknown kind {raw.kind!r}, expected one of {', '.join(KINDS)}")
    if raw.figure != path.stem:
        raise RawSamplesError(f"{path}: holds the samples of {raw.figure!r}")
    if (raw.baseline is not None) != (raw.kind in _PAIRED):
        raise RawSamplesError(f"{path}: {raw.kind} {'needs' if raw.kind in _PAIRED else 'takes no'} baseline samples")
    return raw


def write_from_proof(
    table: str,
    figure: str,
    kind: Literal["latency-ratio", "correctness-difference"],
    proof: Path,
    of: str,
    against: str,
    *,
    command: str,
    root: Path = HERE / "raw",
    commit: str | None = None,
) -> Path:
    """The samples of two files that one benchmark stage measured. `proof` is the folder, the rest are keys in it."""
    from compress.report.proof import read_proof

    measured = read_proof(proof)
    samples, about = measured.samples, measured.measurements
    for key in (of, against):
        if key not in about.variants:
            raise RawSamplesError(f"{proof} did not measure {key!r} (measured: {', '.join(about.variants)})")
    value: NDArray[Any]
    baseline: NDArray[Any]
    if kind == "latency-ratio":
        value, baseline = samples.latency_ms[of], samples.latency_ms[against]
    else:
        value, baseline = samples.correct(of), samples.correct(against)
    engines = dict.fromkeys([measured[of].engine, measured[against].engine])
    return write(
        table,
        figure,
        kind,
        value,
        baseline,
        command=command,
        engine=" against ".join(engines),
        seed=about.seed,
        cpu=about.machine.processor,
        commit=commit,
        root=root,
    )


def _latency_ratio(raw: Raw) -> Result:
    value, baseline = (np.asarray(side, dtype=np.float64) for side in (raw.value, raw.baseline))
    if value.ndim != 2 or not (value > 0).all() or not (baseline > 0).all():
        raise ValueError("expected a row of positive durations for each round")
    measured, (low, high) = ratio(value, baseline, raw.seed)
    return Result(measured - 1, (low - 1, high - 1), value.size)


def _correctness_difference(raw: Raw) -> Result:
    value, baseline = _bits(raw.value), _bits(raw.baseline)
    interval = paired_bootstrap_interval(value, baseline, raw.seed)
    return Result(float(value.mean() - baseline.mean()), interval, value.size)


def _relative_change(raw: Raw) -> Result:
    return _exact(float(raw.value) / float(raw.baseline) - 1)


def _times_smaller(raw: Raw) -> Result:
    return _exact(float(raw.baseline) / float(raw.value))


def _durations(raw: Raw) -> Result:
    values = np.asarray(raw.value, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not (values > 0).all():
        raise ValueError("expected a list of positive durations")
    return Result(float(np.median(values)), _median_interval(values, raw.seed), values.size)


def _duration_difference(raw: Raw) -> Result:
    value, baseline = (np.asarray(side, dtype=np.float64) for side in (raw.value, raw.baseline))
    if value.ndim != 1 or value.size == 0 or value.shape != baseline.shape:
        raise ValueError("expected as many durations as baseline durations, taken in turns")
    difference = value - baseline
    return Result(float(np.median(difference)), _median_interval(difference, raw.seed), value.size)


def _count(raw: Raw) -> Result:
    if not raw.value or any(not isinstance(count, int) or count < 0 for count in raw.value):
        raise ValueError("expected a list of whole numbers, one for each trial")
    total = float(sum(raw.value))
    return Result(total, (total, total), len(raw.value))


_COMPUTE = {
    "latency-ratio": _latency_ratio,
    "correctness-difference": _correctness_difference,
    "relative-change": _relative_change,
    "times-smaller": _times_smaller,
    "durations": _durations,
    "duration-difference": _duration_difference,
    "count": _count,
}


def _exact(value: float) -> Result:
    return Result(value, (value, value), 1)


def _median_interval(values: NDArray[np.float64], seed: int) -> Interval:
    if values.size < _LEAST_FOR_INTERVAL:
        return float(values.min()), float(values.max())
    return bootstrap_interval(values, seed, statistic="median")


def _bits(text: str) -> NDArray[np.bool_]:
    if not isinstance(text, str) or not text or set(text) - {"0", "1"}:
        raise ValueError("expected a text of 0 and 1, one for each sample")
    return np.array([digit == "1" for digit in text])


def _json(value: Any, kind: Kind) -> Any:
    """Samples as compact JSON: correctness as a text of 0 and 1, durations to five significant digits."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if kind == "correctness-difference":
        return "".join("1" if right else "0" for right in array.astype(bool))
    if array.dtype.kind == "f" and array.ndim:
        digits = [float(f"{entry:.5g}") for entry in array.ravel()]
        return np.array(digits).reshape(array.shape).tolist()
    return array.tolist()


def _dump(raw: Raw) -> str:
    """One field a line, samples on one line each: differences stay readable."""
    fields: Mapping[str, Any] = vars(raw)
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _processor() -> str:
    from compress.measurement.machine import processor

    return processor()


def _commit() -> str:
    head = _git("rev-parse", "--short=12", "HEAD")
    return f"{head}+changes" if head and _git("status", "--porcelain", "--untracked-files=no") else head


def _git(*arguments: str) -> str:
    command: Sequence[str] = ["git", "-C", str(HERE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
