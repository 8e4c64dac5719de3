"""`use: quantize`: training with fake quantization, what it reports, and what travels with the variant."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from compress.errors import ExitCode, RequirementNotMet, StageError
from compress.models.network import parent_network
from compress.models.saved import load_model, read_architecture
from compress.quantization.network import quantized
from compress.stages.quantize import STAGE, QuantizeSettings
from export.fold import find_folds, fold
from export.targets import TARGETS
from tests.toy import ToyData, ToyTask, context, files, trained, variant

SETTINGS = {"epochs": 2, "batch_size": 32, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return variant(trained("residual", width=8), tmp_path_factory.mktemp("parent"))


def quantize(folder, parent, said=None, data=None, **settings):
    surroundings = context(folder, data, said=said)
    return STAGE.run((parent,), QuantizeSettings.model_validate({**SETTINGS, **settings}), surroundings)[0]


def test_the_scores_before_and_after_training_are_reported(parent, tmp_path):
    said = []
    result = quantize(tmp_path, parent, said)
    noted = result.notes["quantization"]
    assert noted["parent"] == parent.validation["accuracy"]
    assert noted["qat"] == result.validation["accuracy"] > 0.8
    assert noted["verdict"] == ("gain" if noted["qat"] > noted["ptq"] else "no gain")
    assert said[-1].endswith(noted["verdict"])
    assert noted["left_to_calibration"] == []
    assert result.lineage == ("parent",)


def test_no_gain_is_reported_and_fails_where_a_gain_is_required(parent, tmp_path):
    tiny_steps = {"learning_rate": 1e-12, "weight_decay": 0.0, "epochs": 1, "freeze_ranges": 0.0}
    assert quantize(tmp_path, parent, **tiny_steps).notes["quantization"]["verdict"] == "no gain"
    with pytest.raises(RequirementNotMet, match="no gain: validation accuracy is") as caught:
        quantize(tmp_path, parent, require="better_than_ptq", **tiny_steps)
    assert caught.value.exit_code == ExitCode.GATE_FAILED


def test_folding_the_saved_network_gives_the_trained_weights_bit_for_bit(parent, tmp_path):
    result = quantize(tmp_path, parent)
    saved, before = load_model(result.directory), load_model(parent.directory)
    assert [type(layer) for layer in saved.modules()] == [type(layer) for layer in before.modules()]
    for layer, old in zip(saved.modules(), before.modules(), strict=True):
        if isinstance(layer, torch.nn.BatchNorm2d):
            assert (layer.eps, layer.momentum, layer.affine) == (old.eps, old.momentum, old.affine)
            assert bool((layer.running_var + layer.eps == 1).all())
    folds = find_folds(saved)
    folded = fold(saved, folds)
    for step in folds:
        layer, raw = folded.get_submodule(step.layer), saved.get_submodule(step.layer)
        assert torch.equal(layer.weight, raw.weight)
        assert torch.equal(layer.bias, saved.get_submodule(step.normalization).bias)
    assert any(not torch.equal(a, b) for a, b in zip(saved.parameters(), before.parameters(), strict=True))


def test_the_scales_are_saved_as_json_with_the_weights_and_stay_behind_when_training_goes_on(parent, tmp_path):
    result = quantize(tmp_path, parent)
    saved = read_architecture(result.directory).quantization
    assert saved is not None
    content = json.loads((result.directory / "architecture.json").read_text())
    assert len(content["quantization"]["activations"]) == len(saved.activations) > 5
    for entry in saved.weights:
        layer = load_model(result.directory).get_submodule(entry.layer)
        largest = layer.weight.detach().flatten(1).abs().amax(1).numpy()
        np.testing.assert_allclose(np.asarray(entry.scales) * saved.weight_levels, largest, rtol=1e-5)
    assert parent_network(result).architecture.quantization is None


@pytest.mark.parametrize(("target", "levels"), [("x86-avx2", 64), ("x86-vnni", 127), ("arm-cortex-a76", 127)])
def test_weights_have_seven_bits_where_eight_would_saturate(parent, tmp_path, target, levels):
    around = replace(context(tmp_path), target=TARGETS[target])
    (result,) = STAGE.run((parent,), QuantizeSettings.model_validate({**SETTINGS, "epochs": 1}), around)
    assert result.notes["quantization"]["weight_levels"] == levels


def test_the_same_bytes_every_time_also_after_a_kill(parent, tmp_path, monkeypatch):
    undisturbed = quantize(tmp_path / "undisturbed", parent, checkpoint_every=0)
    loss, calls = ToyTask.loss, []

    class Killed(BaseException):
        pass

    def killing(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise Killed
        return loss(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ToyTask, "loss", killing)
        with pytest.raises(Killed):
            quantize(tmp_path / "killed", parent, checkpoint_every=0)
    assert files(quantize(tmp_path / "killed", parent, checkpoint_every=0)) == files(undisturbed)


def test_the_float_parent_can_teach(parent, tmp_path):
    said = []
    result = quantize(tmp_path, parent, said, distill=True)
    assert said[0].startswith("teacher parent: validation accuracy")
    assert result.validation["accuracy"] > 0.8


def test_augmented_data_and_micro_batches_train_too(parent, tmp_path):
    result = quantize(tmp_path, parent, data=ToyData(augmented=True), accumulation=2)
    assert result.validation["accuracy"] > 0.8


class Branching(torch.nn.Module):
    def forward(self, inputs):
        return inputs if inputs.sum() > 0 else -inputs


def test_a_network_whose_code_depends_on_data_is_refused_with_the_cause():
    with pytest.raises(StageError, match=r"the network cannot be traced for quantization: .*control flow"):
        quantized(Branching(), torch.zeros(1, 3, 8, 8), levels=127, steps=1)
