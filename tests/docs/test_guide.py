"""Every recipe, command and Python snippet of the pages does what the page says."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from compress import __main__ as edgepress
from compress.cli.parser import UsageError, parse
from compress.errors import ExitCode, RecipeError
from compress.pipeline.registry import installed_registry
from compress.pipeline.run import RunResult, run
from compress.pipeline.user_code import check_user_code
from compress.recipe.gates import GATES
from compress.recipe.loader import load_recipe
from compress.recipe.registry import Registry
from compress.recipe.schema import Recipe
from edge_runtime import __main__ as edge_runtime
from tests.docs.conftest import ENVIRONMENT
from tests.docs.pages import PAGES, README, ROOT, Block, Command, blocks, commands, read, whole_recipe
from tune import __main__ as tune

QUICKSTART = (ROOT / "recipes" / "quickstart.yaml").read_text(encoding="utf-8")
RECIPES = [block for page in PAGES for block in blocks(page, "yaml", "recipe")]
COMMANDS = [command for page in (*PAGES, README) for command in commands(page)]
PYTHON = [block for page in PAGES for block in blocks(page, "python")]
pytestmark = pytest.mark.usefixtures("workplace")


@cache
def registry() -> Registry:
    """The real one; looking through all installed distributions takes a moment."""
    return installed_registry()


def load(text: str) -> Recipe:
    Path("snippet.yaml").write_text(text, encoding="utf-8")
    return load_recipe("snippet.yaml", registry(), environment=ENVIRONMENT)


def recipe_of(block: Block) -> Recipe:
    return load(whole_recipe(block.text, QUICKSTART))


def named(page: str, file: str) -> Block:
    (block,) = blocks(page, "python", file)
    return block


# Recipes


@pytest.mark.parametrize("block", RECIPES, ids=str)
def test_a_recipe_is_valid_and_keeps_all_its_sections(block: Block) -> None:
    recipe = recipe_of(block)
    check_user_code(recipe)
    for section in re.findall(r"^([a-z]+):", block.text, re.MULTILINE):
        assert recipe.canonical[section] is not None


def test_the_pages_have_recipes_for_every_stage_source_and_gate() -> None:
    recipes = [recipe_of(block) for block in RECIPES if block.page == "guide.md"]
    assert {spec.use for recipe in recipes for spec in recipe.stages} == set(registry().stages)
    assert {name for recipe in recipes for gate in recipe.gates for name in gate.conditions} == set(GATES)
    sources = {recipe.canonical["data"]["source"] for recipe in recipes}
    assert sources == set(registry().data_sources["image-classification"])
    models = {spec.settings.model.source for recipe in recipes for spec in recipe.stages if model_of(spec)}
    assert models == set(registry().model_sources)


def model_of(spec: Any) -> Any:
    return getattr(spec.settings, "model", None)


@pytest.mark.parametrize("block", RECIPES, ids=str)
def test_a_misspelt_key_in_any_line_of_a_recipe_is_found(block: Block) -> None:
    """Without this, a key that the grammar ignores would pass for a documented one."""
    for number, line in enumerate(block.text.splitlines()):
        key = re.search(r"(?:^|[\s{,-])([a-z_]+):(?=\s|$)", line)
        if key is None or key[1] in ("width", "count"):  # arguments of functions, checked by the function itself
            continue
        lines = block.text.splitlines()
        lines[number] = f"{line[: key.start(1)]}qq{line[key.start(1) :]}"
        with pytest.raises(RecipeError, match=f"qq{key[1]}|missing|expected"):
            load(whole_recipe("\n".join(lines) + "\n", QUICKSTART))


def test_the_quickstart_of_the_guide_is_the_quickstart() -> None:
    written = "".join(line for line in QUICKSTART.splitlines(keepends=True) if not line.startswith("#"))
    assert written in [block.text for block in RECIPES]


def test_every_key_of_the_quickstart_is_explained() -> None:
    (block,) = [block for block in RECIPES if block.text.startswith("recipe: 1")]
    text = read("guide.md")
    explained = set(re.findall(r"`([a-z_]+)(?:: 1)?`", text.partition("| key | meaning |")[2].partition("\n\n")[0]))
    used = set(re.findall(r"(?:^|[\s{,-])([a-z_]+):(?=\s)", block.text, re.MULTILINE))
    inside = {"source", "parameters", "macs", "of", "metric", "max", "min", "stages"} | set(GATES)
    assert used - inside <= explained


def test_the_documented_functions_give_what_recipes_take_from_them() -> None:
    data_blocks = [block for block in RECIPES if "my_data:dots" in block.text]
    task = registry().tasks["image-classification"]
    for block in data_blocks:
        recipe = recipe_of(block)
        data = task.prepare(recipe.data, recipe.seed, Path("cache"))
        assert data.labels == ("left", "right")
        assert sum(data.info(split).count for split in ("train", "validation", "calibration", "test")) == 400
        assert data.info("calibration").count == 64
    assert data_blocks


def test_the_documented_network_takes_what_the_data_says() -> None:
    import torch

    from compress.models.builders import build, builder_reference

    recipe = next(recipe_of(block) for block in RECIPES if "my_models:small" in block.text)
    model = recipe.stages[0].settings.model
    module = build(builder_reference(model, {"num_classes": 7, "in_channels": 3, "image_size": 28})).eval()
    assert module(torch.zeros(1, 3, 28, 28)).shape == (1, 7)
    assert next(module.parameters()).shape[0] == 16


# Commands


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_is_one(command: Command) -> None:
    check(command.words)


def test_the_search_without_recipes_finds_its_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    execute(named("tuning.md", "search.py"))
    assert abs(ast.literal_eval(capsys.readouterr().out)["x"] - 2) < 0.5


@pytest.mark.parametrize(
    "words",
    [
        ("python", "-m", "compress", "rum", "recipes/quickstart.yaml"),
        ("python", "-m", "compress", "run", "recipes/quickstart.yaml", "--sett", "a=b"),
        ("python", "-m", "compress", "run", "recipes/quickstrat.yaml"),
        ("python", "-m", "edge_runtime", "benchmark", "a.tflite", "--secs", "3"),
        ("python", "-m", "pip", "install", ".[compres]"),
        ("python", "benchmarks/chek.py"),
        ("make", "tests"),
        ("rm", "-rf", "runs"),
    ],
)
def test_a_wrong_command_would_be_found(words: Sequence[str]) -> None:
    with pytest.raises((UsageError, SystemExit, AssertionError)):
        check(words)


def check(words: Sequence[str]) -> None:
    """Fails unless the command line is one that its program takes, and the files of the project that it names exist."""
    match tuple(words):
        case ("python", "-m", "compress", *arguments):
            check_compress(arguments)
        case ("python", "-m", "tune", *arguments):
            tune._parse(list(arguments))
        case ("python", "-m", "edge_runtime", *arguments):
            edge_runtime._parser().parse_args(arguments)
        case ("python", "-m", "pip", "install" | "wheel", *arguments) | ("pip", "install", *arguments):
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            for text in re.findall(r"\[(.+)\]", " ".join(arguments)):
                assert set(text.split(",")) <= set(extras)
        case ("python", script, *_):
            assert (ROOT / script).is_file()
        case ("make", target):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case _:
            raise AssertionError(f"no known program: {' '.join(words)}")


def check_compress(arguments: list[str]) -> None:
    parsed = parse(*edgepress._parsers(), arguments)
    if "recipe" in parsed:
        assert (ROOT / parsed.recipe).is_file()


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.output], ids=str)
def test_a_command_prints_what_the_page_shows(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.words[:4] == ("python", "-m", "compress", "validate")
    edgepress.main(command.words[3:])
    printed = capsys.readouterr()
    assert printed.out + printed.err == command.output


def test_every_command_of_the_program_is_shown() -> None:
    ours = [command for command in COMMANDS if command.page == "guide.md"]
    shown = {command.words[3] for command in ours if command.words[:3] == ("python", "-m", "compress")}
    assert set(edgepress.COMMANDS) <= shown


def test_every_exit_code_is_explained() -> None:
    table = read("guide.md").partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == [int(code) for code in ExitCode]


# Python


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_every_import_is_found(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported(f"{node.module}", alias.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "compress":
            assert hasattr(importlib.import_module("compress"), node.attr)


def imported(module: str, name: str) -> None:
    if not hasattr(importlib.import_module(module), name):
        importlib.import_module(f"{module}.{name}")


def test_the_code_for_the_device_classifies_an_image(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np
    from PIL import Image

    from tests.edge_runtime.model_files import Quantized, write_tflite

    write_tflite(workplace / "model-int8.tflite", Quantized())
    Image.fromarray(np.full((9, 9, 3), 128, np.uint8)).save("photo.jpg")
    execute(named("guide.md", "device.py"))
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[-1] for line in lines) == ["cat", "dog", "owl"]


def test_the_call_from_python_is_one_that_run_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = RunResult(ExitCode.OK, Path("runs/quickstart/now"), 1, 0, "done")
    monkeypatch.setattr("compress.pipeline.run.run", create_autospec(run, return_value=answer))
    execute(named("guide.md", "run.py"))
    assert capsys.readouterr().out.splitlines() == ["done", "0 runs/quickstart/now/report.json"]


def execute(block: Block) -> None:
    exec(compile(block.text, str(block), "exec"), {"__name__": "snippet"})


def test_the_snippets_are_found_at_all() -> None:
    guide = [block for block in RECIPES if block.page == "guide.md"]
    assert len(guide) > 10
    assert len([command for command in COMMANDS if command.page == "guide.md"]) > 10
    assert {block.info[1] for block in PYTHON if len(block.info) > 1} >= {"my_data.py", "my_models.py", "device.py"}
    assert "compress" in sys.modules
