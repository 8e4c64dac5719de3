from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from compress.distillation.teacher_outputs import TeacherOutputs
from compress.tasks.protocol import Batch
from tests.nets import residual


class Counting(nn.Module):
    """A network that counts its forward passes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = residual(num_classes=4)
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.net(inputs)


def batch(ids: list[int], augmentation: int = 0) -> Batch:
    """The image of a sample is a function of its id."""
    inputs = torch.stack([torch.from_numpy(np.random.default_rng(i).normal(size=(3, 16, 16))).float() for i in ids])
    numbers = np.array(ids, np.int64)
    return Batch(inputs, torch.zeros(len(ids), dtype=torch.int64), numbers, np.full(len(ids), augmentation, np.int64))


def opened(folder: Path, teacher: nn.Module, data: str = "data", keep: bool = True) -> TeacherOutputs:
    return TeacherOutputs(
        teacher, 4, folder=folder, teacher_digest="teacher", data_digest=data, device="cpu", keep=keep
    )


def test_outputs_are_the_teachers(tmp_path: Path) -> None:
    teacher = Counting().eval()
    found = opened(tmp_path, teacher).for_batch(batch([3, 1, 2]))
    with torch.inference_mode():
        expected = teacher.net(batch([3, 1, 2]).inputs)
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad


def test_a_known_output_is_not_computed_again_in_this_run_or_a_later_one(tmp_path: Path) -> None:
    teacher = Counting()
    outputs = opened(tmp_path, teacher)
    first = outputs.for_batch(batch([1, 2, 3]))
    again = outputs.for_batch(batch([3, 2, 1]))
    assert teacher.calls == 1
    assert torch.equal(again, first.flip(0))
    later = opened(tmp_path, teacher)
    assert torch.equal(later.for_batch(batch([1, 2, 3])), first)
    assert teacher.calls == 1
    assert (later.computed, later.reused) == (0, 3)


@pytest.mark.parametrize("other", ["augmentation", "data"])
def test_another_augmentation_or_data_set_is_computed(tmp_path: Path, other: str) -> None:
    teacher = Counting()
    opened(tmp_path, teacher).for_batch(batch([1]))
    changed = opened(tmp_path, teacher, data="other" if other == "data" else "data")
    changed.for_batch(batch([1], augmentation=1 if other == "augmentation" else 0))
    assert teacher.calls == 2


def test_an_output_does_not_depend_on_the_batch_around_it(tmp_path: Path) -> None:
    """A rerun after a kill finds some outputs and computes others: it must end bit-equal all the same."""
    teacher = Counting()
    ids = list(range(100))
    whole = opened(tmp_path / "a", teacher).for_batch(batch(ids))
    parts = opened(tmp_path / "b", teacher)
    for some in (ids[60:70], ids[:5], ids[97:], ids[20:60:7]):
        assert torch.equal(parts.for_batch(batch(some)), whole[some])


def test_a_record_cut_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    teacher = Counting()
    first = opened(tmp_path, teacher).for_batch(batch([1, 2]))
    (log,) = tmp_path.rglob("*.log")
    log.write_bytes(log.read_bytes()[:-3])
    later = opened(tmp_path, teacher)
    assert torch.equal(later.for_batch(batch([1, 2])), first)
    assert (later.computed, later.reused) == (1, 1)


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    teacher = Counting()
    one, other = opened(tmp_path, teacher), opened(tmp_path, teacher)
    first = one.for_batch(batch([1, 2]))
    assert torch.equal(other.for_batch(batch([2, 1])), first.flip(0))
    assert opened(tmp_path, teacher).for_batch(batch([1, 2])).equal(first)


def test_nothing_is_written_when_outputs_are_not_kept(tmp_path: Path) -> None:
    outputs = opened(tmp_path, Counting(), keep=False)
    outputs.for_batch(batch([1]))
    outputs.for_batch(batch([1]))
    assert outputs.computed == 2
    assert not list(tmp_path.rglob("*"))
