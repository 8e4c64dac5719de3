"""`use: prune`: cut, checked, recovered, resumable."""

from __future__ import annotations

import json
import os

import pytest
import torch
from pydantic import ValidationError

import compress.pruning.steps as steps
from compress.errors import StageError
from compress.models.cost import count
from compress.models.saved import load_model, read_architecture
from compress.stages.prune import STAGE, PruneSettings
from tests.toy import ToyData, ToyTask, context, files, trained, variant

HALF = {"parameters": 0.5, "macs": 0.4}
RECOVER = {"epochs": 2, "batch_size": 32, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return variant(trained("residual", width=32), tmp_path_factory.mktemp("parent"))


def prune(parent, folder, data=None, said=None, **settings):
    surroundings = context(folder, data, said=said)
    return STAGE.run((parent,), PruneSettings.model_validate({"reduce": HALF, **settings}), surroundings)[0]


def test_both_reductions_are_met_and_the_notes_say_how(parent, tmp_path):
    result = prune(parent, tmp_path)
    assert result.parameters <= 0.5 * parent.parameters
    assert result.macs <= 0.6 * parent.macs
    cost = count(load_model(result.directory, result.digest), (1, 3, 8, 8))
    assert (cost.parameters, cost.macs) == (result.parameters, result.macs)
    notes = json.loads(json.dumps(result.notes))
    assert notes["reached"]
    assert notes["reduced"]["parameters"] == pytest.approx(1 - result.parameters / parent.parameters)
    (step,) = notes["phases"]
    assert step["masked_difference"] < 1e-6
    assert {"name": "classifier", "reason": "it is an output of the network"}.items() <= step["plan"]["excluded"][
        0
    ].items()
    assert result.lineage == ("parent",)


def test_channels_are_kept_in_multiples_of_the_targets(parent, tmp_path):
    result = prune(parent, tmp_path)
    kept = [len(edit.keep) for edit in read_architecture(result.directory).edits]
    assert kept
    assert all(number % 8 == 0 for number in kept)


def test_a_pruned_variant_loads_without_torch_pruning(parent, tmp_path, monkeypatch):
    result = prune(parent, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "torch_pruning", None)
    module = load_model(result.directory, result.digest)
    assert module(ToyData().inputs).shape[1] == 3
    assert {path.name for path in result.directory.iterdir()} == {"architecture.json", "weights.safetensors"}


def test_recovery_restores_what_the_cut_cost(parent, tmp_path):
    bare = prune(parent, tmp_path / "bare", reduce={"parameters": 0.85}, batchnorm_batches=0)
    result = prune(parent, tmp_path / "recovered", reduce={"parameters": 0.85}, recover=RECOVER | {"epochs": 6})
    assert result.validation["accuracy"] > bare.validation["accuracy"]
    assert result.validation["accuracy"] >= parent.validation["accuracy"] - 0.05
    module = load_model(result.directory)
    assert ToyTask().evaluate(module, ToyData(), "validation", 64, "cpu") == result.validation


@pytest.mark.parametrize("importance", ["l1", "l2", "bn-scale", "taylor", "random"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_every_importance_and_scope_prunes_and_gives_the_same_bytes_again(parent, tmp_path, importance, scope):
    first = prune(parent, tmp_path / "first", importance=importance, scope=scope)
    second = prune(parent, tmp_path / "second", importance=importance, scope=scope)
    assert first.parameters <= 0.5 * parent.parameters
    assert files(first) == files(second)


def test_steps_fall_evenly_and_recover_in_between(parent, tmp_path):
    result = prune(parent, tmp_path, steps=2, recover=RECOVER)
    one, two = (phase["plan"]["after"] for phase in result.notes["phases"])
    assert one["parameters"] <= 0.75 * parent.parameters
    assert one["parameters"] > 0.5 * parent.parameters
    assert two["parameters"] <= 0.5 * parent.parameters
    assert all(phase["training"]["epochs_run"] == 2 for phase in result.notes["phases"])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", ["sparsity", "cut-1", "recovery-1", "cut-2"])
def test_a_killed_stage_continues_and_ends_bit_equal(parent, tmp_path, monkeypatch, after):
    settings = {
        "steps": 2,
        "recover": {**RECOVER, "epochs": 1, "distill": True},
        "sparsity": {**RECOVER, "epochs": 1, "regularizer": "group_lasso"},
    }
    undisturbed = prune(parent, tmp_path / "undisturbed", ToyData(augmented=True), **settings)
    calls = {"perform": 0, "train": 0}
    kills = {"sparsity": ("perform", 1), "cut-1": ("train", 2), "recovery-1": ("perform", 2), "cut-2": ("train", 3)}

    def counted(name, function):
        def call(*arguments, **options):
            calls[name] += 1
            if kills[after] == (name, calls[name]):
                raise Killed
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(steps, "perform", counted("perform", steps.perform))
        patch.setattr(steps, "train", counted("train", steps.train))
        with pytest.raises(Killed):
            prune(parent, tmp_path / "killed", ToyData(augmented=True), **settings)
    result = prune(parent, tmp_path / "killed", ToyData(augmented=True), **settings)
    assert files(result) == files(undisturbed)


def test_finished_phases_are_not_computed_again(parent, tmp_path, monkeypatch):
    first = prune(parent, tmp_path, recover=RECOVER)

    def never(*arguments, **options):
        raise AssertionError("a finished phase ran again")

    monkeypatch.setattr(steps, "perform", never)
    monkeypatch.setattr(steps, "train", never)
    assert files(prune(parent, tmp_path, recover=RECOVER)) == files(first)


def test_sparse_training_shrinks_scales_before_the_cut(parent, tmp_path):
    strong = {**RECOVER, "regularizer": "bn_l1", "strength": 0.05, "epochs": 3, "learning_rate": 3e-2}
    result = prune(parent, tmp_path, importance="bn-scale", sparsity=strong)
    before = load_model(parent.directory)
    after = load_model(tmp_path / "work" / "sparsity" / "network")
    scales = [
        sum(layer.weight.abs().sum() for layer in module.modules() if isinstance(layer, torch.nn.BatchNorm2d))
        for module in (before, after)
    ]
    assert scales[1] < 0.9 * scales[0]
    assert [phase["phase"] for phase in result.notes["phases"]] == ["sparsity", "step-1"]


def test_distilled_recovery_names_its_teacher_first(parent, tmp_path):
    said = []
    prune(parent, tmp_path, said=said, recover={**RECOVER, "distill": True})
    teacher = next(index for index, line in enumerate(said) if line.startswith("teacher parent: validation accuracy"))
    assert all("epoch" not in line for line in said[:teacher])
    assert any("epoch" in line for line in said[teacher:])


def test_batch_statistics_are_measured_again(parent, tmp_path):
    result = prune(parent, tmp_path / "with")
    bare = prune(parent, tmp_path / "without", batchnorm_batches=0)
    with_, without = load_model(result.directory), load_model(bare.directory)
    assert not torch.equal(with_.stem[1].running_mean, without.stem[1].running_mean)
    assert torch.equal(with_.stem[0].weight, without.stem[0].weight)
    assert result.notes["phases"][0]["batchnorm_batches"] > 0
    assert bare.notes["phases"][0]["batchnorm_batches"] == 0


def test_protected_layers_keep_their_outputs(parent, tmp_path):
    result = prune(parent, tmp_path, reduce={"parameters": 0.4}, protect="body.0.inner.0")
    module = load_model(result.directory)
    assert module.body[0].inner[0][0].out_channels == 32
    assert module.body[1].inner[0][0].out_channels < 32


def test_a_protected_path_that_matches_nothing_is_refused_with_near_ones(parent, tmp_path):
    with pytest.raises(StageError, match=r"no module matches 'bodi\.0\.inner'; near: body\.0\.inner"):
        prune(parent, tmp_path, protect=["bodi.0.inner"])


def test_paths_to_freeze_are_resolved_before_anything_is_cut(parent, tmp_path):
    with pytest.raises(StageError, match="no module matches 'bodi'; near: body"):
        prune(parent, tmp_path, recover={**RECOVER, "freeze": "bodi"})
    assert not any((tmp_path / "work").iterdir())


def test_what_cannot_be_reached_is_refused_and_says_how_much_can(parent, tmp_path):
    with pytest.raises(StageError) as caught:
        prune(parent, tmp_path, reduce={"parameters": 0.5, "macs": 0.5}, protect=["stem", "body"])
    message = str(caught.value)
    assert "cannot reduce parameters by 50.0%: at most 0.0% can be cut" in message
    assert "stem is protected" in message
    assert message.splitlines()[-1].endswith("`best_effort: true` takes what can be reached")


def test_best_effort_takes_what_can_be_reached_and_says_so(parent, tmp_path):
    result = prune(parent, tmp_path, reduce={"parameters": 0.95}, protect=["stem"], best_effort=True)
    assert 0 < result.notes["reduced"]["parameters"] < 0.95
    assert result.notes["reached"] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reduce": {}}, "expected `parameters`, `macs`, or both"),
        ({"reduce": {"parameters": "100%"}}, "less than 1"),
        ({"reduce": HALF, "recover": {"epoch": 1}}, "epochs"),
        ({"reduce": HALF, "importance": "l3"}, "'l1', 'l2'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        PruneSettings.model_validate(settings)


def test_work_folders_hold_no_training_state_in_the_end(parent, tmp_path):
    prune(parent, tmp_path, recover=RECOVER)
    assert not list((tmp_path / "work").rglob("training"))
    assert sum(len(names) for _, _, names in os.walk(tmp_path / "work")) == 3
