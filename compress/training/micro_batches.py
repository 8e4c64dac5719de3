"""One batch in parts that fit in memory, weighted so that their losses add up to the mean over the batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from compress.tasks.protocol import Batch


def micro_batches(batch: Batch, parts: int) -> Iterator[tuple[Batch, float]]:
    """At most `parts` parts, equal or different by one sample, each with its share of the batch.

    Views where the data allows it.
    """
    count = len(batch.sample_ids)
    if parts == 1:
        yield batch, 1.0
        return
    parts = min(parts, count)
    ends = [count * (part + 1) // parts for part in range(parts)]
    for start, end in pairwise([0, *ends]):
        part = Batch(
            inputs=_cut(batch.inputs, start, end),
            targets=_cut(batch.targets, start, end),
            sample_ids=batch.sample_ids[start:end],
            augmentation_ids=batch.augmentation_ids[start:end],
        )
        yield part, (end - start) / count


def to_device(batch: Batch, device: str, channels_last: bool) -> Batch:
    """Inputs and targets on `device`, images in the memory format of the network. Copies overlap with computation."""
    import torch

    def move(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: move(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(move(item) for item in value)
        if not isinstance(value, torch.Tensor):
            return value
        if value.ndim == 4:
            value = value.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        if torch.device(device).type == "cuda" and value.device.type == "cpu":
            value = value.pin_memory()
        return value.to(device, non_blocking=True)

    return replace(batch, inputs=move(batch.inputs), targets=move(batch.targets))


def _cut(value: Any, start: int, end: int) -> Any:
    """Samples `start` to `end` of a tensor, an array, a sequence over samples, or a mapping of these."""
    if isinstance(value, Mapping):
        return {key: _cut(item, start, end) for key, item in value.items()}
    return value[start:end]
