"""Statistics of batch normalizations, measured again after channels have gone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from compress.tasks.protocol import Batch

if TYPE_CHECKING:
    from torch import nn


def reestimate(module: nn.Module, batches: Iterable[Batch], count: int, device: str) -> int:
    """Replaces running means and variances by the plain average over `count` batches; returns how many were read.

    All other layers stay in evaluation mode (no dropout); without a graph. The module ends on the CPU, in evaluation
    mode. Without batch normalization, or without batches, nothing is changed.
    """
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    if not norms or count == 0:
        return 0
    module.eval().to(device)
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # the average over all batches instead of an exponential one
        layer.train()
    read = 0
    try:
        with torch.no_grad():
            for batch in itertools.islice(batches, count):
                module(batch.inputs.to(device))
                read += 1
    finally:
        for layer, momentum in zip(norms, momenta, strict=True):
            layer.momentum = momentum
        module.eval().cpu()
    return read
