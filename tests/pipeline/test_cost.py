"""Predictions from what was spent before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from compress.pipeline.cost import ROUGH, Spent, append_history, predict, read_history, work_of
from compress.pipeline.registry import STAGES
from compress.recipe.schema import Node, StageSpec


class Recover(BaseModel):
    epochs: int = 2


class Settings(BaseModel):
    epochs: int | None = None
    recover: Recover | None = None
    steps: tuple[Recover, ...] = ()


def node(
    use: str = "train", stage: str = "baseline", results: tuple[str, ...] = ("baseline",), **settings: Any
) -> Node:
    spec = StageSpec(stage, use, Settings(**settings), (), None)
    return Node(spec, (), (), results)


def spent(seconds: float, work: float = 4, **changes: Any) -> Spent:
    values: dict[str, Any] = {
        "use": "train",
        "stage": "baseline",
        "recipe": "quickstart",
        "data": "d1",
        "work": work,
        "results": 1,
        "seconds": seconds,
        "disk_bytes": 1000,
    }
    return Spent(**(values | changes))


def test_work_is_epochs_wherever_they_stand_else_variants() -> None:
    assert work_of(node(epochs=4)) == 4
    assert work_of(node(recover=Recover())) == 2
    assert work_of(node(epochs=4, recover=Recover(), steps=(Recover(epochs=1), Recover(epochs=1)))) == 8
    assert work_of(node("export", results=("a", "b", "c"))) == 3
    assert work_of(Node(StageSpec("proof", "benchmark", Settings(), (), None), ("a", "b"), (), ("proof",))) == 2


def test_time_scales_with_work() -> None:
    prediction = predict(node(epochs=8), "quickstart", "d1", [spent(40, work=4)])
    assert (prediction.seconds, prediction.disk_bytes, prediction.basis) == (80, 1000, "measured here")


def test_the_nearest_executions_count_before_others() -> None:
    history = [
        spent(400, stage="other", recipe="other", data="d2"),
        spent(200, stage="other", recipe="other"),
        spent(40),
    ]
    assert predict(node(epochs=4), "quickstart", "d1", history).seconds == 40
    assert predict(node(stage="third", epochs=4), "third", "d2", history).seconds == 400
    assert predict(node(stage="third", epochs=4), "third", "d9", history).seconds == 200


def test_the_latest_executions_count_and_one_odd_one_does_not() -> None:
    history = [spent(1000), *(spent(40) for _ in range(4)), spent(900)]
    assert predict(node(epochs=4), "quickstart", "d1", history).seconds == 40


def test_another_kind_of_stage_says_nothing() -> None:
    assert predict(node("prune", epochs=1), "quickstart", "d1", [spent(40)]).basis == "rough"


def test_without_history_every_built_in_stage_has_a_rough_figure() -> None:
    assert ROUGH.keys() == STAGES.keys()
    prediction = predict(node("export", results=("a", "b")), "quickstart", None, [])
    assert prediction.basis == "rough"
    assert prediction.seconds == 2 * ROUGH["export"].seconds_per_work
    assert predict(node("somebody's"), "quickstart", None, []).seconds > 0


def test_history_survives_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    append_history(path, spent(1))
    with path.open("a") as file:
        file.write('{"use": "train", "sta\n')
    append_history(path, spent(2))
    assert [item.seconds for item in read_history(path)] == [1, 2]
    assert read_history(tmp_path / "none") == ()


@pytest.mark.parametrize("work", [0, -1])
def test_history_without_work_is_left_out(work: float) -> None:
    assert predict(node(epochs=1), "quickstart", "d1", [spent(40, work=work)]).basis == "rough"
