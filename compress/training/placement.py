"""Where a network lies while it is trained: on which device, and in which memory format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compress.training.pointwise import strides_by_slicing
from compress.training.settings import MemoryFormat

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def placed(model: nn.Module, device: str, memory_format: MemoryFormat) -> Iterator[bool]:
    """Inside, the model lies on `device`; yields whether as channels-last. Afterwards: CPU, contiguous."""
    import torch

    channels_last = memory_format == "channels-last" or (
        memory_format == "auto" and any(isinstance(module, torch.nn.Conv2d) for module in model.modules())
    )
    model.to(device)
    if channels_last:
        model.to(memory_format=torch.channels_last)
    try:
        with strides_by_slicing(model):
            yield channels_last
    finally:
        if channels_last:
            model.to(memory_format=torch.contiguous_format)
        model.to("cpu")
