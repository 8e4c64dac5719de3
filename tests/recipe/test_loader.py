from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compress.errors import ExitCode, RecipeError
from compress.recipe.loader import load_recipe
from tests.recipe.conftest import Load, Problems
from tests.recipe.fakes import CHAIN, registry


def test_a_recipe_is_typed_and_complete(load: Load) -> None:
    recipe = load(CHAIN)
    assert recipe.path == Path("recipe.yaml")
    assert (recipe.name, recipe.seed, recipe.task, recipe.target) == ("chain", 3, "image-classification", "host")
    assert recipe.text == CHAIN
    assert recipe.data.limit is None
    baseline, pruned = recipe.stages[0].settings, recipe.stages[1].settings
    assert baseline.learning_rate == 2e-3
    assert (baseline.model.source, baseline.model.arguments) == ("torchvision", {"name": "resnet18", "stem": "default"})
    assert (pruned.reduce.parameters, pruned.reduce.macs) == (0.72, 0.65)
    assert recipe.gates[0].conditions["size_reduction"].min == 0.917
    assert recipe.reference == "compression-table"


def test_the_command_that_runs_a_recipe_keeps_its_overrides(load: Load) -> None:
    assert load(CHAIN).command == "python -m compress run recipe.yaml"
    recipe = load(CHAIN, "seed=4", "stages.pruned.reduce={macs: 50%}")
    assert recipe.command == (
        "python -m compress run recipe.yaml --set seed=4 --set 'stages.pruned.reduce={macs: 50%}'"
    )


def test_the_name_defaults_to_the_file_name(load: Load) -> None:
    assert load(CHAIN.replace("name: chain\n", "")).name == "recipe"


def test_the_canonical_form_has_every_default_and_no_comment_or_order(load: Load) -> None:
    shuffled = CHAIN.replace("epochs: 4\n    learning_rate: 2e-3", "learning_rate: 0.002  # small\n    epochs: 4")
    shuffled = shuffled.replace("72%", "0.72").replace("reference: compression-table\n", "")
    shuffled = "reference: compression-table\n" + shuffled
    first, second = load(CHAIN), load(shuffled)
    assert first.canonical == second.canonical
    assert first.canonical["stages"][1] == {
        "id": "pruned",
        "use": "prune",
        "from": ["baseline"],
        "as": None,
        "reduce": {"parameters": 0.72, "macs": 0.65},
        "recover": None,
        "steps": [],
    }
    assert first.canonical != load(CHAIN, "seed=4").canonical


def test_the_canonical_form_is_a_recipe_that_means_the_same(load: Load) -> None:
    import json

    first = load(CHAIN).canonical
    text = json.dumps(
        first | {"stages": [{k: v for k, v in s.items() if (k, v) != ("from", [])} for s in first["stages"]]}
    )
    assert load(text).canonical == first


def test_a_source_may_have_its_own_source_key(load: Load) -> None:
    recipe = load(CHAIN.replace("{source: digits}", "{source: image-folder, folder: ., mean: 0.5}"))
    assert recipe.data.source == "image-folder"
    assert recipe.canonical["data"] == {"source": "image-folder", "folder": ".", "mean": [0.5]}


def test_a_function_is_short_for_its_source(load: Load) -> None:
    recipe = load(CHAIN.replace("{source: torchvision, name: resnet18}", "package.module:build"))
    assert recipe.canonical["stages"][0]["model"] == {
        "source": "module:function",
        "function": "package.module:build",
        "arguments": {},
    }


def test_the_environment_is_the_default_for_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(CHAIN.replace("seed: 3", "seed: ${EDGEPRESS_TEST_SEED}"))
    monkeypatch.setenv("EDGEPRESS_TEST_SEED", "11")
    assert load_recipe(path, registry()).seed == 11


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "recipe.yaml:1:1: the recipe is empty"),
        ("# a comment\n", "recipe.yaml:1:1: the recipe is empty"),
        ("- a\n", "recipe.yaml:1:1: expected a mapping of keys, got a list"),
        ("text\n", "recipe.yaml:1:1: expected a mapping of keys, got 'text'"),
    ],
)
def test_what_is_no_recipe_says_so(problems: Problems, content: str, message: str) -> None:
    assert problems(content) == [message]
    assert problems(content, "seed=1") == [message]


def test_missing_and_unreadable_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart.yaml").write_bytes(b"recipe: 1\nname: \xff\n")
    Path("folder").mkdir()
    expected = {
        "quickstar.yaml": "quickstar.yaml: no such file; did you mean 'quickstart.yaml'?",
        "nowhere/x.yaml": "nowhere/x.yaml: no such file",
        "folder": "folder: is a folder, not a recipe",
        "quickstart.yaml": "quickstart.yaml:2:1: not UTF-8 text (byte 16)",
    }
    for path, message in expected.items():
        with pytest.raises(RecipeError) as caught:
            load_recipe(path, registry())
        assert caught.value.problems == [message]
        assert caught.value.exit_code == ExitCode.USAGE


def test_a_task_without_data_sources_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(CHAIN)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, replace(registry(), data_sources={}))
    assert caught.value.problems == [f"{path}:5:7: no data source is installed for the task image-classification"]


def test_a_value_that_cannot_be_read_is_one_problem(problems: Problems) -> None:
    assert problems(CHAIN.replace("epochs: 4", "epochs: 04")) == [
        "recipe.yaml:10:13: numbers with leading zeros are ambiguous; write 4, or quote it: '04'"
    ]


def test_problems_cannot_reach_the_terminal_as_control_codes(problems: Problems) -> None:
    found = problems(CHAIN + '"\\e[31m\\nx": 1\n')
    assert len(found) == 1
    assert all(problem.isprintable() for problem in found)
