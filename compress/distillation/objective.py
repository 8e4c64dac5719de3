"""The loss of a student that learns from a teacher's outputs (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from compress.distillation.settings import DistillationSettings
from compress.tasks.protocol import Batch, Task
from compress.training.run import Objective

if TYPE_CHECKING:
    from torch import Tensor, nn


def distillation_objective(
    task: Task, outputs: Callable[[Batch], Tensor], settings: DistillationSettings, label_smoothing: float
) -> Objective:
    """alpha * distillation loss + (1 - alpha) * the task's loss, for `compress.training.loop.train`."""

    def objective(model: nn.Module, batch: Batch) -> Tensor:
        predicted = model(batch.inputs)
        soft = task.distillation_loss(predicted, outputs(batch), settings.temperature)
        hard = task.loss(predicted, batch.targets, label_smoothing)
        return settings.alpha * soft + (1 - settings.alpha) * hard

    return objective
