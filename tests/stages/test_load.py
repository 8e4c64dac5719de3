"""`use: load`: somebody's trained network starts a recipe."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from compress.errors import StageError
from compress.models.saved import load_model
from compress.stages.load import STAGE, LoadSettings
from tests.toy import ToyData, ToyTask, context, trained, variant

FUNCTION = {"source": "module:function", "function": "tests.nets:plain", "arguments": {}}


def load(folder, **settings):
    return STAGE.run((), LoadSettings.model_validate(settings), context(folder))[0]


@pytest.fixture(scope="module")
def made():
    return trained("plain")


@pytest.mark.parametrize("form", ["safetensors", "torch"])
def test_a_function_and_a_weights_file_give_a_measured_variant(tmp_path, made, form):
    weights = tmp_path / ("weights.safetensors" if form == "safetensors" else "weights.pt")
    if form == "safetensors":
        save_file(made.module.state_dict(), weights)
    else:
        torch.save(made.module.state_dict(), weights)
    result = load(tmp_path, model="tests.nets:plain", weights=weights)
    data = ToyData()
    expected = ToyTask().evaluate(made.module, data, "validation", 64, "cpu")
    assert result.validation == expected
    assert expected["accuracy"] > 0.9
    assert result.lineage == ()
    assert result.name == "result"
    assert torch.equal(load_model(result.directory, result.digest)(data.inputs), made.module(data.inputs))


def test_a_saved_variant_is_loaded_with_its_weights(tmp_path, made):
    parent = variant(made, tmp_path)
    result = load(tmp_path, model={"source": "variant", "directory": str(parent.directory)})
    assert result.digest == parent.digest
    assert result.validation == parent.validation


def test_nothing_is_trained_so_two_loads_are_equal(tmp_path, made):
    save_file(made.module.state_dict(), tmp_path / "w.safetensors")
    first = load(tmp_path, model=FUNCTION, weights=tmp_path / "w.safetensors")
    second = load(tmp_path, model=FUNCTION, weights=tmp_path / "w.safetensors")
    assert first.digest == second.digest


def test_a_network_without_weights_is_refused_when_the_recipe_is_read():
    with pytest.raises(ValidationError, match="come without trained weights: name a file under `weights`"):
        LoadSettings.model_validate({"model": {"source": "torchvision", "name": "resnet18"}})


def test_weights_of_another_network_are_refused_by_name(tmp_path, made):
    save_file(trained("chunk", epochs=0).module.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(StageError, match=r"missing: body\.0\.0\.weight.*\n.*unexpected: body\.expand\.0\.weight"):
        load(tmp_path, model=FUNCTION, weights=tmp_path / "w.safetensors")


def test_a_network_for_other_data_is_refused(tmp_path):
    model = {"source": "module:function", "function": "tests.nets:plain", "arguments": {"num_classes": 7}}
    with pytest.raises(StageError, match=r"gives outputs of shape \(\(1, 7\),\), the data asks for \(\(1, 3\),\)"):
        load(tmp_path, model=model)
