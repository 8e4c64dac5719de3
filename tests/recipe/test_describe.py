from __future__ import annotations

import pytest

from compress.errors import RecipeError
from compress.recipe.describe import Key, describe, find
from tests.recipe.fakes import registry

ENTRIES = describe(registry())


def test_everything_that_a_recipe_can_name_is_listed() -> None:
    listed = {(entry.kind, entry.name) for entry in ENTRIES}
    assert listed >= {
        ("stage", "train"),
        ("stage", "benchmark"),
        ("task", "image-classification"),
        ("model source", "torchvision"),
        ("data source", "image-folder"),
        ("gate", "quality_drop"),
    }


def test_every_key_says_what_it_takes_and_its_default() -> None:
    (train,) = find(ENTRIES, "train")
    keys = {key.name: key for key in train.keys}
    assert keys["epochs"] == Key("epochs", "whole number >= 1", None, "Passes over the training data.")
    assert keys["model"].type == "model"
    assert keys["optimizer"].type == "adamw, sgd, rmsprop"
    assert keys["optimizer"].default == "adamw"
    assert keys["warmup"].type == "number >= 0, <= 1 or percentage"
    assert keys["warmup"].default == "null"
    assert keys["nesterov"] == Key("nesterov", "true or false", "false", "")
    assert keys["steps"].type == "auto or whole number >= 1"
    assert keys["early_stopping.patience"].description == "Epochs without a better result."
    assert keys["memory"].default == "1048576"


def test_keys_of_entries_in_lists_are_listed() -> None:
    (prune,) = find(ENTRIES, "prune")
    assert {"steps", "steps.layer", "steps.ratio", "reduce.parameters"} <= {key.name for key in prune.keys}


def test_the_key_that_chose_a_source_is_not_listed_again() -> None:
    (folder,) = find(ENTRIES, "image-folder")
    assert [key.name for key in folder.keys] == ["folder", "mean"]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"nothing is called 'trian'; did you mean 'train'\?"):
        find(ENTRIES, "trian")
