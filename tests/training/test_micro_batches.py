import numpy as np
import torch

from compress.tasks.protocol import Batch
from compress.training.micro_batches import micro_batches, to_device


def batch(count, targets=None):
    inputs = torch.arange(count * 4.0).reshape(count, 1, 2, 2)
    return Batch(
        inputs, torch.arange(count) if targets is None else targets, np.arange(count), np.zeros(count, np.int64)
    )


def test_parts_cover_the_batch_and_their_shares_add_up_to_one():
    parts = list(micro_batches(batch(10), 4))
    assert [len(part.targets) for part, _ in parts] == [2, 3, 2, 3]
    assert [share for _, share in parts] == [0.2, 0.3, 0.2, 0.3]
    assert torch.equal(torch.cat([part.inputs for part, _ in parts]), batch(10).inputs)
    assert np.concatenate([part.sample_ids for part, _ in parts]).tolist() == list(range(10))


def test_parts_are_views_that_cost_no_memory():
    whole = batch(8)
    (part, _), *_ = micro_batches(whole, 2)
    assert part.inputs.untyped_storage().data_ptr() == whole.inputs.untyped_storage().data_ptr()


def test_a_batch_smaller_than_the_number_of_parts_gives_fewer():
    assert len(list(micro_batches(batch(2), 5))) == 2


def test_targets_may_be_mappings_and_lists():
    targets = {"boxes": [[0], [1], [2], [3]], "count": torch.arange(4)}
    parts = [part.targets for part, _ in micro_batches(batch(4, targets), 2)]
    assert parts[1]["boxes"] == [[2], [3]]
    assert parts[1]["count"].tolist() == [2, 3]


def test_images_take_the_memory_format_of_the_network_and_targets_follow_the_device():
    moved = to_device(batch(4, {"a": torch.ones(4), "b": ["x"] * 4}), "cpu", channels_last=True)
    assert moved.inputs.is_contiguous(memory_format=torch.channels_last)
    assert moved.targets["b"] == ["x"] * 4
    assert to_device(moved, "cpu", channels_last=False).inputs.is_contiguous()
