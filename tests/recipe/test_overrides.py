from __future__ import annotations

import pytest

from tests.recipe.conftest import Load, Problems
from tests.recipe.fakes import CHAIN


def test_stages_are_addressed_by_id(load: Load) -> None:
    assert load(CHAIN, "stages.baseline.epochs=1").stages[0].settings.epochs == 1


def test_keys_that_the_recipe_leaves_out_can_be_set(load: Load) -> None:
    recipe = load(CHAIN, "stages.pruned.recover.patience=5", "target=x86-avx2")
    assert recipe.stages[1].settings.recover.patience == 5
    assert recipe.target == "x86-avx2"


def test_values_are_read_like_values_of_a_recipe(load: Load) -> None:
    recipe = load(
        CHAIN,
        "stages.files.format=[onnx]",
        "stages.pruned.reduce={parameters: 10%}",
        "gates.0.of=student/onnx-int8",
        "stages.proof.baseline=student/onnx-fp32",
        "stages.baseline.learning_rate=1e-5",
        "stages.baseline.epochs=${N:-9}",
        "reference=",
    )
    assert recipe.stages[3].settings.format == ("onnx",)
    assert recipe.stages[1].settings.reduce.parameters == pytest.approx(0.1)
    assert recipe.stages[1].settings.reduce.macs is None
    assert recipe.gates[0].of == "student/onnx-int8"
    assert recipe.stages[0].settings.learning_rate == 1e-5
    assert recipe.stages[0].settings.epochs == 9
    assert recipe.reference is None


def test_later_overrides_win(load: Load) -> None:
    assert load(CHAIN, "seed=4", "seed=5").seed == 5


def test_a_whole_entry_can_be_replaced(load: Load) -> None:
    recipe = load(CHAIN, "gates.0={of: baseline/onnx-int8, size: {max: 3MB}}")
    assert [gate.of for gate in recipe.gates] == ["baseline/onnx-int8"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stages.baselin.epochs=1", "'stages' has no entry 'baselin'; did you mean 'baseline'?"),
        ("stages.baseline.epohcs=1", "unknown key 'epohcs' in stage 'baseline' (train); did you mean 'epochs'?"),
        ("stages.baseline.epochs=many", "expected a whole number, got 'many'"),
        ("stages.baseline.epochs.x=1", "'stages.baseline.epochs' holds a single value, so it has no key 'x'"),
        ("stage.baseline.epochs=1", "unknown key 'stage' in the recipe; did you mean 'stages'?"),
        ("gates.1.of=x", "'gates' has no entry '1'; expected '0'"),
        ("gates.0.quality_drop.max=x", "expected a fraction like 0.72 or a percentage like 72%, got 'x'"),
        ("seed", "expected PATH=VALUE, such as stages.baseline.epochs=1"),
        ("a..b=1", "expected PATH=VALUE, such as stages.baseline.epochs=1"),
        ("=1", "expected PATH=VALUE, such as stages.baseline.epochs=1"),
        ("seed={", "not valid YAML: expected the node content, but found '<stream end>' (while parsing a flow node)"),
        ("seed=${NOWHERE}", "environment variable NOWHERE is not set; set it, or write ${NOWHERE:-default}"),
        ("seed=010", "numbers with leading zeros are ambiguous; write 10, or quote it: '010'"),
        ("stages.student.teacher=basline", "nothing is called 'basline'; did you mean 'baseline'?"),
    ],
)
def test_a_problem_of_an_override_is_reported_with_its_text(problems: Problems, override: str, message: str) -> None:
    assert problems(CHAIN, override) == [f"--set {override}: {message}"]


def test_problems_of_the_file_come_first(problems: Problems) -> None:
    found = problems(CHAIN.replace("epochs: 4", "epochs: x"), "seed=-1")
    assert found == [
        "recipe.yaml:10:13: expected a whole number, got 'x'",
        "--set seed=-1: expected a number of at least 0, got -1",
    ]
