"""Recipes as text in, recipes or lists of problems out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from compress.errors import RecipeError
from compress.recipe.loader import load_recipe
from compress.recipe.schema import Recipe
from tests.recipe.fakes import registry

# Machines that run tests are shared: how long one example takes says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

Load = Callable[..., Recipe]
Problems = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a recipe's text as `recipe.yaml` in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def load(text: str, *overrides: str, environment: Mapping[str, str] | None = None) -> Recipe:
        Path("recipe.yaml").write_text(text, encoding="utf-8")
        return load_recipe("recipe.yaml", registry(), overrides, environment or {})

    return load


@pytest.fixture
def problems(load: Load) -> Problems:
    """The problems of a recipe's text; fails the test when there are none."""

    def problems(text: str, *overrides: str, environment: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(RecipeError) as caught:
            load(text, *overrides, environment=environment)
        return caught.value.problems

    return problems
