from __future__ import annotations

import pytest

from compress.recipe.schema import Node, Recipe
from tests.recipe.conftest import Load, Problems
from tests.recipe.fakes import CHAIN

HEAD = "recipe: 1\ntask: image-classification\ndata: {source: digits}\nstages:\n"


def train(name: str) -> str:
    return f"  - {{id: {name}, use: train, model: pkg.mod:net, epochs: 1}}\n"


def stage(use: str, name: str, rest: str = "") -> str:
    return f"  - {{id: {name}, use: {use}{rest}}}\n"


def flow(recipe: Recipe) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(node.stage.id, node.parents, node.results) for node in recipe.nodes]


def node(recipe: Recipe, result: str) -> Node:
    return next(node for node in recipe.nodes if result in node.results)


def test_the_stage_before_is_the_default_parent(load: Load) -> None:
    recipe = load(HEAD + train("a") + stage("prune", "b") + stage("prune", "c"))
    assert flow(recipe) == [("a", (), ("a",)), ("b", ("a",), ("b",)), ("c", ("b",), ("c",))]


def test_an_export_fans_out_over_parents_formats_and_precisions(load: Load) -> None:
    recipe = load(CHAIN)
    assert node(recipe, "pruned/tflite-int8").parents == ("pruned",)
    assert node(recipe, "pruned/tflite-int8").results == (
        "pruned/onnx-fp32",
        "pruned/onnx-int8",
        "pruned/tflite-fp32",
        "pruned/tflite-int8",
    )


def test_a_stage_over_all_parents_runs_once(load: Load) -> None:
    proof = node(load(CHAIN), "proof")
    assert len(proof.parents) == 12
    assert proof.references == ("baseline/tflite-fp32",)


def test_single_variants_can_be_named_and_are_taken_once(load: Load) -> None:
    recipe = load(
        HEAD
        + train("a")
        + stage("export", "e", ", format: [onnx, tflite]")
        + stage("benchmark", "m", ", from: [a/onnx-fp32, e, a/onnx-fp32]")
    )
    assert node(recipe, "m").parents == ("a/onnx-fp32", "a/tflite-fp32")


def test_stages_may_stand_in_any_order(load: Load) -> None:
    recipe = load(HEAD + train("a") + stage("prune", "late", ", from: early") + stage("prune", "early", ", from: a"))
    assert [entry[0] for entry in flow(recipe)] == ["a", "early", "late"]
    assert [spec.id for spec in recipe.stages] == ["a", "early", "late"]


def test_a_reference_orders_stages_too(load: Load) -> None:
    recipe = load(HEAD + train("a") + stage("distill", "s", ", from: a, teacher: t") + stage("prune", "t", ", from: a"))
    assert [entry[0] for entry in flow(recipe)] == ["a", "t", "s"]
    assert node(recipe, "s").references == ("t",)


def test_as_names_the_results(load: Load) -> None:
    recipe = load(
        HEAD
        + train("a")
        + train("b")
        + stage("prune", "c", ', from: [a, b], as: "{parent}-{id}"')
        + stage("export", "e", ", from: c")
        + stage("export", "u8", ', from: c, as: "{parent}-u8"')
    )
    assert [entry[2] for entry in flow(recipe)] == [
        ("a",),
        ("b",),
        ("a-c",),
        ("b-c",),
        ("a-c/onnx-fp32",),
        ("b-c/onnx-fp32",),
        ("a-c-u8/onnx-fp32",),
        ("b-c-u8/onnx-fp32",),
    ]


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((train("a"), stage("prune", "b", ", from: c"), stage("prune", "c", ", from: b")),
         ["recipe.yaml:6:31: stages form a cycle: b needs c needs b"]),
        ((train("a"), stage("prune", "b", ", from: b")), ["recipe.yaml:6:31: stages form a cycle: b needs b"]),
        ((train("a"), stage("distill", "s", ", from: a, teacher: t"), stage("distill", "t", ", from: s, teacher: a")),
         ["recipe.yaml:6:45: stages form a cycle: s needs t needs s"]),
        ((train("a"), stage("prune", "s", ", from: s/onnx-fp32"), stage("export", "e", ", from: s")),
         ["recipe.yaml:6:31: stages form a cycle: s needs e needs s"]),
        ((stage("prune", "b", ", from: c"), stage("prune", "c", ", from: b"), stage("prune", "d", ", from: nothing")),
         ["recipe.yaml:5:31: stages form a cycle: b needs c needs b",
          "recipe.yaml:7:31: nothing is called 'nothing'; expected one of b, c"]),
        ((train("base"), stage("prune", "b", ", from: bas")),
         ["recipe.yaml:6:31: nothing is called 'bas'; did you mean 'base'?"]),
        ((train("base"), stage("prune", "b", ", from: [base, bas, nothing]")),
         ["recipe.yaml:6:38: nothing is called 'bas'; did you mean 'base'?",
          "recipe.yaml:6:43: nothing is called 'nothing'; expected 'base'"]),
        ((train("a"), train("a")), ["recipe.yaml:6:10: two stages are called 'a'; every id must be unique"]),
        ((stage("prune", "b"),), ["recipe.yaml:5:10: stage 'b' (prune) has nothing to work on: it is the first"]),
        ((train("a"), stage("train", "b", ", from: a, model: x:y, epochs: 1")),
         ["recipe.yaml:6:31: stage 'b' (train) starts from nothing and takes no `from`"]),
        ((train("a"), train("b"), stage("prune", "c", ", from: [a, b]")),
         ["recipe.yaml:7:10: stage 'c' gives several results called 'c'; "
          "tell them apart with `as:`, for example `as: \"{parent}-c\"`"]),
        ((train("a"), stage("export", "e"), stage("export", "e2", ", from: a, format: [tflite, onnx]")),
         ["recipe.yaml:7:10: stage 'e2' gives 'a/onnx-fp32', which stage 'e' gives already; "
          "tell them apart with `as:`, for example `as: \"{parent}-e2\"`"]),
        ((train("a"), stage("prune", "b", ", as: z"), stage("prune", "z", ", from: a")),
         ["recipe.yaml:6:29: stage 'b' gives a result called 'z', which is the id of another stage; "
          "tell them apart with `as:`, for example `as: \"{parent}-b\"`"]),
        ((train("a"), stage("prune", "b", ', as: "{parnt}"')),
         ["recipe.yaml:6:29: unknown placeholder {parnt}; here `as` takes {id} and {parent}"]),
        ((train("a"), stage("prune", "b", ', as: "../b"')),
         ["recipe.yaml:6:29: expected letters, digits and . _ + - / beside {parent} and {id}, got '../b'"]),
        ((train("a"), stage("export", "e"), stage("prune", "p", ", from: a/onnx-fp32")),
         ["recipe.yaml:7:31: stage 'p' (prune) works on torch models, but 'a/onnx-fp32' is a file; "
          "did you mean 'a'?"]),
        ((train("a"), stage("export", "e"), stage("prune", "p")),
         ["recipe.yaml:7:5: stage 'p' (prune) works on torch models, but stage 'e' gives files; "
          "write `from:` to choose others"]),
        ((train("a"), stage("export", "e"), stage("benchmark", "m", ", from: [a, e]")),
         ["recipe.yaml:7:36: stage 'm' (benchmark) works on files, but 'a' is a torch model; "
          "did you mean 'a/onnx-fp32'?"]),
        ((train("a"), stage("export", "e"), stage("benchmark", "m"), stage("prune", "p", ", from: m")),
         ["recipe.yaml:8:31: stage 'p' (prune) works on torch models, but 'm' is a measurement; expected 'a'"]),
        ((train("a"), stage("export", "e", ", format: [onnx, tflite]"), stage("distill", "s", ", from: a, teacher: e")),
         ["recipe.yaml:7:45: 'e' is a stage with several results; name one of them: a/onnx-fp32, a/tflite-fp32"]),
        ((train("a"), stage("export", "e"), stage("distill", "s", ", from: a, teacher: a/onnx-fp32")),
         ["recipe.yaml:7:45: expected a torch model, but 'a/onnx-fp32' is a file; did you mean 'a'?"]),
        ((train("a"), stage("export", "e"), stage("benchmark", "m", ", baseline: a")),
         ["recipe.yaml:7:39: expected a file, but 'a' is a torch model; did you mean 'a/onnx-fp32'?"]),
    ],
)  # fmt: skip
def test_names_that_do_not_work_out_are_reported(
    problems: Problems, stages: tuple[str, ...], expected: list[str]
) -> None:
    assert problems(HEAD + "".join(stages)) == expected


def test_a_wrong_stage_does_not_make_its_users_wrong(problems: Problems) -> None:
    text = CHAIN.replace("use: prune", "use: prun").replace("epochs: 4", "epochs: 0")
    assert problems(text) == [
        "recipe.yaml:10:13: expected a number of at least 1, got 0",
        "recipe.yaml:13:10: unknown technique 'prun'; did you mean 'prune'?",
    ]


def test_files_of_right_stages_are_judged_beside_wrong_ones(problems: Problems) -> None:
    text = CHAIN.replace("72%", "x").replace("baseline: baseline/tflite-fp32", "baseline: baseline/tflite-fp3")
    assert problems(text) == [
        "recipe.yaml:14:26: expected a fraction like 0.72 or a percentage like 72%, got 'x'",
        "recipe.yaml:25:15: nothing is called 'baseline/tflite-fp3'; did you mean 'baseline/tflite-fp32'?",
    ]


def test_hundreds_of_stages_are_no_matter(load: Load) -> None:
    chain = "".join(stage("prune", f"p{i}", f", from: p{i + 1}") for i in range(300))
    recipe = load(HEAD + chain + train("p300"))
    assert recipe.nodes[-1].results == ("p0",)
