"""Keeps training off a defect of PyTorch's CPU kernels that corrupts memory.

The gradient of a 1x1 convolution with a stride, fewer than eight input channels and an even input size writes beyond
its memory (oneDNN as shipped with torch 2.14, AVX2): the process dies in `free` or by a segmentation fault, some steps
later. The same convolution without stride, over every n-th row and column of its input, computes the same and is safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_SAFE_CHANNELS = 8


@contextmanager
def strides_by_slicing(model: nn.Module) -> Iterator[None]:
    """Inside, such convolutions slice their input and have stride 1. Outputs are those of before, up to rounding."""
    import torch

    changed: list[tuple[Any, tuple[int, ...], Any]] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d) and _is_unsafe(module):
            rows, columns = module.stride
            hook = module.register_forward_pre_hook(
                lambda _, inputs, rows=rows, columns=columns: (inputs[0][..., ::rows, ::columns],)
            )
            changed.append((module, module.stride, hook))
            module.stride = (1, 1)
    try:
        yield
    finally:
        for module, stride, hook in changed:
            module.stride = stride
            hook.remove()


def _is_unsafe(module: nn.Conv2d) -> bool:
    return (
        tuple(module.kernel_size) == (1, 1)
        and tuple(module.stride) != (1, 1)
        and module.padding in ((0, 0), "valid")
        and module.in_channels // module.groups < _SAFE_CHANNELS
    )
