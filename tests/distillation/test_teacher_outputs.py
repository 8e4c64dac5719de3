"""A teacher's outputs: right, without a graph, computed once for a sample and augmentation."""

from __future__ import annotations

import pytest
import torch

from compress.distillation.teacher import Teacher
from compress.distillation.teacher_outputs import TeacherOutputs
from compress.training.settings import TrainingSettings
from tests.toy import ToyData, network

SETTINGS = TrainingSettings(epochs=1, batch_size=32)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network("plain").module.eval()
        self.samples = 0

    def forward(self, inputs):
        self.samples += len(inputs)
        assert not torch.is_grad_enabled() or torch.is_inference_mode_enabled()
        return self.net(inputs)


@pytest.fixture
def teacher():
    return Teacher("teacher", "digest", Counting().eval(), {})


def opened(teacher, data, folder, settings=SETTINGS, seed=1, **options):
    return TeacherOutputs(teacher, data, settings, seed=seed, device="cpu", folder=folder, **options)


def epoch(outputs, data, number=0, seed=1, batch_size=32):
    return [(batch, outputs(batch)) for batch in data.training_batches(batch_size, seed, number)]


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_outputs_are_the_teachers_in_the_order_of_the_batch(teacher, tmp_path, augmented, keep):
    data = ToyData(augmented=augmented)
    outputs = opened(teacher, data, tmp_path, keep=keep)
    for number in range(2):
        for batch, found in epoch(outputs, data, number):
            torch.testing.assert_close(found, teacher.module.net(batch.inputs).detach())
            assert not found.requires_grad
            assert not found.is_inference()


def test_samples_as_they_are_are_computed_once_for_all_epochs_seeds_and_batch_sizes(teacher, tmp_path):
    data = ToyData()
    outputs = opened(teacher, data, tmp_path)
    assert outputs.computed == 96
    before = teacher.module.samples
    first = dict(zip(range(96), [None] * 96, strict=True))
    for batch, found in epoch(outputs, data) + epoch(outputs, data, 1):
        for sample, row in zip(batch.sample_ids.tolist(), found, strict=True):
            assert first[sample] is None or torch.equal(first[sample], row)
            first[sample] = row
    other = opened(teacher, data, tmp_path, TrainingSettings(epochs=1, batch_size=16), seed=9)
    epoch(other, data, seed=9, batch_size=16)
    assert other.computed == 0
    assert other.reused == 96
    assert teacher.module.samples - before == 96  # to find out how wide the outputs are


def test_each_augmentation_is_computed_once(teacher, tmp_path):
    data = ToyData(augmented=True)
    outputs = opened(teacher, data, tmp_path)
    for number in range(4):  # mirrored in every other epoch
        epoch(outputs, data, number)
    assert outputs.computed == 2 * 96
    assert outputs.reused == 2 * 96
    assert opened(teacher, data, tmp_path).computed == 0


@pytest.mark.parametrize("difference", ["teacher", "code", "data", "preprocessing"])
def test_outputs_of_another_teacher_data_set_or_preprocessing_are_not_used(teacher, tmp_path, difference):
    opened(teacher, ToyData(), tmp_path)
    data = ToyData(digest="other" if difference == "data" else "toy")
    if difference == "preprocessing":
        data.inputs = data.inputs * 2
    if difference == "teacher":
        teacher = Teacher("teacher", "other digest", teacher.module, {})
    if difference == "code":  # equal weights under equal names, and another forward pass
        teacher = Teacher("teacher", "digest", torch.nn.Sequential(teacher.module, torch.nn.Softmax(dim=1)).eval(), {})
    assert opened(teacher, data, tmp_path).computed == 96


def test_a_partly_filled_store_gives_the_same_bits_as_an_empty_one(teacher, tmp_path):
    data = ToyData(augmented=True)
    cold = [found for _, found in epoch(opened(teacher, data, tmp_path / "cold"), data)]
    outputs = opened(teacher, data, tmp_path / "warm")
    for batch in list(data.training_batches(32, 1, 0))[:2]:
        outputs(batch)
    warm = [found for _, found in epoch(opened(teacher, data, tmp_path / "warm"), data)]
    assert all(torch.equal(one, other) for one, other in zip(cold, warm, strict=True))
