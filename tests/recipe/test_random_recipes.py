"""Whatever a file holds, loading it gives a recipe or a RecipeError with printable lines, never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compress.errors import RecipeError
from compress.recipe.loader import load_recipe
from compress.recipe.schema import Recipe
from tests.recipe.fakes import CHAIN, registry

ENVIRONMENT = {"A": "1", "B": "x", "EMPTY": "", "BAD": "a\nb"}
REGISTRY = registry()


def outcome(content: bytes, overrides: tuple[str, ...] = ()) -> Recipe | list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.yaml"
        path.write_bytes(content)
        try:
            return load_recipe(path, REGISTRY, overrides, ENVIRONMENT)
        except RecipeError as error:
            problems = error.problems
    assert problems
    assert len(set(problems)) == len(problems)
    for problem in problems:
        assert problem.isprintable()
        assert problem.startswith((f"{path}:", "--set "))
    return problems


WORDS = st.sampled_from(
    ["baseline", "pruned", "files", "proof", "a/onnx-fp32", "baseline/onnx-fp32", "train", "prune", "export",
     "benchmark", "72%", "${A}", "${B}", "${NO}", "${NO:-3}", "yes", "a:b", "digits", "torchvision",
     "{parent}-{id}", "", "x" * 200]
)  # fmt: skip
KEYS = st.sampled_from(
    ["recipe", "name", "seed", "task", "data", "target", "stages", "gates", "reference", "id", "use", "from", "as",
     "of", "model", "epochs", "source", "reduce", "parameters", "teacher", "format", "precision", "baseline", "size",
     "max", "quality_drop", "against", "steps", "layer", "early_stopping", "patience", "freeze", "0"]
)  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 200), st.floats(), WORDS, st.text(max_size=5))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)


@st.composite
def shaped_recipes(draw: st.DrawFn) -> dict[str, Any]:
    """A right recipe in which some values are anything."""
    recipe: Any = yaml.safe_load(CHAIN)
    for _ in range(draw(st.integers(0, 4))):
        here: Any = recipe
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            key = (
                draw(st.one_of(st.sampled_from(keys), KEYS)) if isinstance(here, dict) else draw(st.sampled_from(keys))
            )
            below = here.get(key) if isinstance(here, dict) else here[key]
            if not isinstance(below, dict | list) or not below or draw(st.integers(0, 3)) == 0:
                here[key] = draw(VALUES)
                break
            here = below
    return recipe


@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    outcome(content)


@given(st.text(st.sampled_from("ab:{}[]-,#&*!|>'\"%@`\n\t $~<>?=0.e1_")), st.booleans())
def test_random_yaml_like_text(text: str, after_a_recipe: bool) -> None:
    outcome((CHAIN if after_a_recipe else "").encode() + text.encode())


@given(VALUES)
def test_random_values(value: Any) -> None:
    outcome(yaml.safe_dump(value).encode())


@settings(max_examples=60)
@given(shaped_recipes())
def test_recipes_with_random_values_in_the_right_places(recipe: dict[str, Any]) -> None:
    outcome(yaml.safe_dump(recipe, sort_keys=False).encode())


@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.lists(st.one_of(KEYS, st.sampled_from(["baseline", "pruned", "9", "", "a.b"])), max_size=4), LEAVES
            ).map(lambda pair: f"{'.'.join(pair[0])}={pair[1]}"),
            st.text(max_size=12).filter(lambda text: "\n" not in text),
        ),
        max_size=3,
    )
)
def test_random_overrides(overrides: list[str]) -> None:
    outcome(CHAIN.encode(), tuple(overrides))


EDGES = st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6)


@given(EDGES)
def test_random_graphs_run_parents_first_or_name_a_cycle(edges: list[list[int]]) -> None:
    stages = ["  - {id: s0, use: train, model: a:b, epochs: 1}"]
    for index, parents in enumerate(edges, start=1):
        named = ", ".join(f"s{parent}" for parent in parents or [0])
        stages.append(f"  - {{id: s{index}, use: prune, from: [{named}], as: '{{parent}}-{{id}}'}}")
    head = "recipe: 1\ntask: image-classification\ndata: {source: digits}\nstages:\n"
    found = outcome((head + "\n".join(stages)).encode())
    if isinstance(found, Recipe):
        done: set[str] = set()
        for node in found.nodes:
            assert set(node.parents) <= done
            assert not done & set(node.results)
            done |= set(node.results)
    else:
        dangling = any(parent > len(edges) for parents in edges for parent in parents)
        assert dangling or any("cycle" in problem for problem in found) or any("several" in p for p in found)
