"""What a step will take, from what steps like it took before in this store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel

from compress.recipe.schema import Node

Basis = Literal["measured here", "rough"]
_RECENT = 5


@dataclass(frozen=True)
class Spent:
    """A line of history: what one execution took. `work` is what its duration grows with, in units of its stage."""

    use: str
    stage: str
    recipe: str
    data: str
    work: float
    results: int
    seconds: float
    disk_bytes: int


@dataclass(frozen=True)
class Prediction:
    """`seconds` and `disk_bytes` that a step will take. `measured here`: scaled from earlier runs in this store."""

    seconds: float
    disk_bytes: int
    basis: Basis


@dataclass(frozen=True)
class _Rate:
    seconds_per_work: float
    bytes_per_result: int


ROUGH: Mapping[str, _Rate] = {
    "load": _Rate(5, 45_000_000),
    "train": _Rate(17, 45_000_000),
    "prune": _Rate(12, 15_000_000),
    "distill": _Rate(12, 15_000_000),
    "quantize": _Rate(25, 15_000_000),
    "export": _Rate(10, 20_000_000),
    "benchmark": _Rate(5, 1_000_000),
}
"""Before anything was measured: the quickstart (ResNet-18, 5,000 small images, 2 cores) per epoch, file or variant."""
_UNKNOWN = _Rate(30, 20_000_000)


def work_of(node: Node) -> float:
    """Epochs of training where the settings have some, else the number of variants taken or given."""
    epochs = _epochs(node.stage.settings)
    return float(epochs) if epochs else float(max(len(node.results), len(node.parents), 1))


def predict(node: Node, recipe: str, data: str | None, history: Sequence[Spent]) -> Prediction:
    """Scales the latest executions that are most like this one: same stage of the recipe and data, else same data,

    else same recipe, else same kind of stage; without any, a rough figure of another machine."""
    same_kind = [spent for spent in history if spent.use == node.stage.use and spent.work > 0]
    closeness = (
        lambda spent: (spent.stage, spent.recipe, spent.data) == (node.stage.id, recipe, data),
        lambda spent: (spent.stage, spent.recipe) == (node.stage.id, recipe),
        lambda spent: spent.data == data,
        lambda spent: True,
    )
    work, results = work_of(node), max(len(node.results), 1)
    for close in closeness:
        alike = [spent for spent in same_kind if close(spent)][-_RECENT:]
        if alike:
            seconds = median(spent.seconds / spent.work for spent in alike) * work
            size = median(spent.disk_bytes / max(spent.results, 1) for spent in alike) * results
            return Prediction(seconds, round(size), "measured here")
    rate = ROUGH.get(node.stage.use, _UNKNOWN)
    return Prediction(rate.seconds_per_work * work, rate.bytes_per_result * results, "rough")


def read_history(path: Path) -> tuple[Spent, ...]:
    """Lines that cannot be read are left out: nothing but predictions depends on them."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    spent = []
    for line in lines:
        try:
            spent.append(Spent(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return tuple(spent)


def append_history(path: Path, spent: Spent) -> None:
    """One write of one line, so that lines of several processes don't mix."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (json.dumps(asdict(spent)) + "\n").encode())
    finally:
        os.close(handle)


def _epochs(value: Any) -> int:
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, Mapping):
        own = value.get("epochs")
        inner = sum(_epochs(item) for key, item in value.items() if key != "epochs")
        return inner + (own if isinstance(own, int) and not isinstance(own, bool) else 0)
    if isinstance(value, list | tuple):
        return sum(_epochs(item) for item in value)
    return 0
