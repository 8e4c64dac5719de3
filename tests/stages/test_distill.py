"""`use: distill`: the teacher's score first, its outputs computed once, the student any variant or model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

import compress.distillation.teacher_outputs as teacher_outputs
from compress.errors import StageError
from compress.models.saved import load_model
from compress.stages.distill import STAGE, DistillSettings
from tests.toy import ToyData, context, files, network, trained, variant

SETTINGS = {"teacher": "teacher", "epochs": 2, "batch_size": 32, "learning_rate": 3e-3}
MODEL = {"source": "module:function", "function": "tests.nets:plain", "arguments": {"width": 8}}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return variant(trained("residual", width=32), tmp_path_factory.mktemp("teacher"), "teacher")


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return variant(network("plain"), tmp_path_factory.mktemp("parent"))


def distill(folder, parent, teacher, data=None, said=None, seed=7, **settings):
    surroundings = context(folder, data, seed, said, teacher=teacher)
    return STAGE.run((parent,), DistillSettings.model_validate({**SETTINGS, **settings}), surroundings)[0]


def test_the_teacher_is_a_reference_that_the_plan_resolves(parent):
    assert STAGE.references(DistillSettings.model_validate(SETTINGS)) == ("teacher",)
    assert STAGE.result_names("student", ("parent",), DistillSettings.model_validate(SETTINGS)) == ("student",)


def test_the_parent_learns_and_the_teachers_score_comes_first(parent, teacher, tmp_path):
    said = []
    result = distill(tmp_path, parent, teacher, said=said, epochs=6)
    assert result.validation["accuracy"] > max(parent.validation["accuracy"], 0.8)
    assert said[0].startswith("teacher teacher: validation accuracy 1.0")
    assert result.lineage == ("parent",)
    assert result.notes["teacher"] == {"name": "teacher", "validation": teacher.validation}


def test_a_new_student_comes_from_its_teacher_alone(parent, teacher, tmp_path):
    result = distill(tmp_path, parent, teacher, model=MODEL, epochs=6)
    assert result.lineage == ("teacher",)
    assert result.parameters < parent.parameters
    assert result.validation["accuracy"] > 0.8


def test_the_student_follows_the_teacher_and_not_the_labels_when_alpha_is_one(parent, tmp_path):
    """A teacher that always answers the first class."""
    stubborn = network("plain", seed=3)
    stubborn.module.classifier.bias.data[:] = torch.tensor([50.0, 0.0, 0.0])
    stubborn = variant(stubborn, tmp_path, "stubborn")
    result = distill(tmp_path, parent, stubborn, alpha=1.0, epochs=6, keep="last", temperature=20.0)
    answers = load_model(result.directory)(ToyData().inputs).argmax(1)
    assert (answers == 0).float().mean() > 0.9


@pytest.mark.parametrize("augmented", [False, True])
def test_the_same_bytes_from_a_cold_and_from_a_warm_store(parent, teacher, tmp_path, augmented, monkeypatch):
    data = ToyData(augmented=augmented)
    cold = distill(tmp_path, parent, teacher, data)
    passes = []
    compute = teacher_outputs.TeacherOutputs._compute

    def counting(self, batch):
        passes.append(batch)
        return compute(self, batch)

    monkeypatch.setattr(teacher_outputs.TeacherOutputs, "_compute", counting)
    (tmp_path / "work").rename(tmp_path / "done")
    warm = distill(tmp_path, parent, teacher, data)
    assert files(cold) == files(warm)
    assert len(passes) == 1  # the one that finds out how wide the outputs are


@pytest.mark.parametrize("augmented", [False, True])
def test_outputs_that_are_not_kept_give_the_same_student_but_for_rounding(parent, teacher, tmp_path, augmented):
    data = ToyData(augmented=augmented)
    kept = distill(tmp_path / "kept", parent, teacher, data, epochs=1)
    computed = distill(tmp_path / "computed", parent, teacher, data, epochs=1, keep_outputs=False)
    assert not list((tmp_path / "computed" / "shared").rglob("*.rows"))
    state = [load_model(result.directory).state_dict() for result in (kept, computed)]
    for name, tensor in state[0].items():
        torch.testing.assert_close(tensor, state[1][name], rtol=1e-4, atol=1e-5)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("augmented", [False, True])
def test_a_killed_stage_continues_and_ends_bit_equal(parent, teacher, tmp_path, monkeypatch, augmented):
    data = ToyData(augmented=augmented)
    undisturbed = distill(tmp_path / "undisturbed", parent, teacher, data, checkpoint_every=0)
    call = teacher_outputs.TeacherOutputs.__call__
    calls = []

    def killing(self, batch):
        calls.append(batch)
        if len(calls) == 5:
            raise Killed
        return call(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(teacher_outputs.TeacherOutputs, "__call__", killing)
        with pytest.raises(Killed):
            distill(tmp_path / "killed", parent, teacher, data, checkpoint_every=0)
    assert files(distill(tmp_path / "killed", parent, teacher, data, checkpoint_every=0)) == files(undisturbed)


def test_a_teacher_of_other_classes_is_refused(parent, teacher, tmp_path):
    other = replace(teacher, contract=replace(teacher.contract, labels=("cat", "dog")))
    with pytest.raises(StageError, match=r"the teacher 'teacher' knows 2 classes \(cat, dog, ...\), the data has 3"):
        distill(tmp_path, parent, other)


def test_a_teacher_that_was_changed_on_disk_is_refused(parent, teacher, tmp_path):
    with pytest.raises(StageError, match="was changed after it was made"):
        distill(tmp_path, parent, replace(teacher, digest="0" * 64))


def test_weights_without_a_new_student_are_refused(tmp_path):
    with pytest.raises(ValidationError, match="name it under `model`"):
        DistillSettings.model_validate({**SETTINGS, "weights": str(tmp_path / "w.safetensors")})
