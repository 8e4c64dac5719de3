"""The optimizer of a training run: which parameters it steps, and which of them decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compress.errors import StageError
from compress.training.settings import DEFAULT_WEIGHT_DECAY, TrainingSettings

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Two groups: matrices and kernels decay; vectors and scalars, which are biases and normalization, do not.

    Raises StageError when every parameter is frozen.
    """
    import torch

    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise StageError("nothing is left to train: every parameter is frozen")
    decay = DEFAULT_WEIGHT_DECAY[settings.optimizer] if settings.weight_decay is None else settings.weight_decay
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.learning_rate)
    return torch.optim.SGD(
        groups, lr=settings.learning_rate, momentum=settings.momentum, nesterov=settings.momentum > 0
    )
