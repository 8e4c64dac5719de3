"""The section `tune`: what it may say, what it means, and what is said about wrong ones."""

from __future__ import annotations

import pytest

from tests.recipe.conftest import Load, Problems
from tests.recipe.fakes import CHAIN
from tune.space import Categorical, Range


def tuned(section: str) -> str:
    return f"{CHAIN}tune: {section}\n"


def test_a_recipe_without_it_has_none(load: Load) -> None:
    recipe = load(CHAIN)
    assert recipe.tune is None
    assert "tune" not in recipe.canonical


def test_an_empty_one_searches_learning_rate_and_batch_size_of_the_first_stage_that_has_them(load: Load) -> None:
    spec = load(tuned("{}")).tune
    assert spec is not None
    assert spec.space.parameters == {
        "stages.baseline.learning_rate": Range(1e-5, 1e-2, log=True),
        "stages.baseline.batch_size": Categorical((32, 64, 128)),
    }
    assert (spec.of, spec.stages, spec.stopped) == ("baseline", ("baseline",), ("baseline",))
    assert (spec.objectives, spec.settings.trials, spec.settings.sampler) == ((("accuracy", "maximize"),), 40, "tpe")


def test_the_judged_variant_is_that_of_the_last_searched_stage(load: Load) -> None:
    spec = load(tuned("{space: {stages.baseline.epochs: [1, 2], stages.pruned.reduce.macs: [0.5, 0.6]}}")).tune
    assert spec is not None
    assert spec.of == "pruned"


def test_limits_of_pick_have_units(load: Load) -> None:
    spec = load(tuned('{objective: [accuracy, latency, size], pick: {latency: "<= 8 ms", accuracy: ">= 90%"}}')).tune
    assert spec is not None
    assert (spec.pick["latency"].value, spec.pick["latency"].at_most) == (0.008, True)
    assert (spec.pick["accuracy"].value, spec.pick["accuracy"].at_most) == (0.9, False)


CASES = {
    "a path that no stage has": (
        "{space: {stages.baselin.epochs: [1, 2]}}",
        "stages.baselin.epochs: no stage is called 'baselin'; did you mean 'baseline'?",
    ),
    "a setting that the stage has not": (
        "{space: {stages.baseline.lerning_rate: [0.1, 0.2]}}",
        "stages.baseline.lerning_rate: unknown key 'lerning_rate' in stage 'baseline' (train); "
        "did you mean 'learning_rate'?",
    ),
    "a path that is none": (
        "{space: {learning_rate: [0.1]}}",
        "expected a path like stages.baseline.learning_rate, got 'learning_rate'",
    ),
    "a key of the grammar": (
        "{space: {stages.baseline.use: [train, load]}}",
        "stages.baseline.use: 'use' is no setting of the technique and cannot be searched",
    ),
    "a key below a single value": (
        "{space: {stages.baseline.epochs.more: [1]}}",
        "stages.baseline.epochs.more: 'epochs' holds a single value, so it has no key 'more'",
    ),
    "a range outside the setting's bounds": (
        "{space: {stages.baseline.batch_size: {low: 0, high: 64}}}",
        "stages.baseline.batch_size: expected a number of at least 1, got 0",
    ),
    "a choice of another type": (
        "{space: {stages.baseline.optimizer: [adamw, adamv]}}",
        "stages.baseline.optimizer: expected one of adamw, sgd, rmsprop, got 'adamv'; did you mean 'adamw'?",
    ),
    "fractions for whole numbers": (
        "{space: {stages.baseline.batch_size: {low: 1.5, high: 8.5}}}",
        "stages.baseline.batch_size: expected a whole number",
    ),
    "log through zero": (
        "{space: {stages.baseline.learning_rate: {low: 0, high: 0.1, log: true}}}",
        "stages.baseline.learning_rate: a logarithmic scale cannot reach zero or below; expected low above 0, got 0",
    ),
    "low above high": (
        "{space: {stages.baseline.learning_rate: {low: 0.2, high: 0.1}}}",
        "stages.baseline.learning_rate: low (0.2) is above high (0.1); did you mean {low: 0.1, high: 0.2}?",
    ),
    "an empty space": ("{space: {}}", "the space is empty; expected paths such as stages.baseline.learning_rate"),
    "an unknown key": ("{trails: 3}", "unknown key 'trails' in tune; did you mean 'trials'?"),
    "an unknown sampler": ("{sampler: tpf}", "expected one of tpe, random, grid, qmc, cma-es, nsga-ii, got 'tpf'"),
    "an unknown objective": (
        "{objective: acuracy}",
        "unknown objective 'acuracy'; did you mean 'accuracy'?",
    ),
    "a cost in front": (
        "{objective: [latency, accuracy]}",
        "expected a metric of image-classification first and costs behind it, got latency, accuracy",
    ),
    "an objective twice": ("{objective: [accuracy, accuracy]}", "the objective 'accuracy' is given twice"),
    "a limit on no objective": (
        '{pick: {latency: "<= 8 ms"}}',
        "pick: no objective is called 'latency'; expected 'accuracy'",
    ),
    "a limit without a sign": ('{pick: {accuracy: "8 ms"}}', "expected a limit such as \"<= 8 ms\", got '8 ms'"),
    "a limit in a wrong unit": ('{objective: [accuracy, latency], pick: {latency: "<= 8 MB"}}', "latency: expected"),
    "a variant that is not there": ("{of: baselin}", "nothing is called 'baselin'; did you mean 'baseline'?"),
    "a file as variant": (
        "{of: baseline/onnx-fp32}",
        "'baseline/onnx-fp32' is a file, and trials are judged on torch models; did you mean 'baseline'?",
    ),
    "a stage that does not lead to the variant": (
        "{of: baseline, space: {stages.pruned.reduce.macs: [0.5, 0.6]}}",
        "stage 'pruned' does not lead to 'baseline': the search could not see it",
    ),
}


@pytest.mark.parametrize(("section", "message"), CASES.values(), ids=CASES)
def test_a_wrong_section_says_where_and_what_was_expected(section: str, message: str, problems: Problems) -> None:
    (found,) = problems(tuned(section))
    assert found.startswith(f"recipe.yaml:{len(CHAIN.splitlines()) + 1}:")
    assert message in found


def test_a_wrong_stage_is_reported_once_where_it_stands(problems: Problems) -> None:
    (found,) = problems(tuned("{}").replace("epochs: 4", "epochs: none"))
    assert "expected a whole number" in found
    assert "tune" not in found
