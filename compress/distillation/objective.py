"""The loss of a student that learns from a teacher's outputs (Hinton, Vinyals, Dean 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compress.distillation.teacher_outputs import TeacherOutputs
from compress.tasks.protocol import Batch, Task
from compress.training.run import Objective

if TYPE_CHECKING:
    from torch import Tensor, nn


def distillation_objective(
    task: Task, teacher: TeacherOutputs, *, temperature: float, alpha: float, label_smoothing: float = 0.0
) -> Objective:
    """`alpha` times the soft-target loss (already times temperature squared) plus `1 - alpha` times the task's loss."""

    def objective(model: nn.Module, batch: Batch) -> Tensor:
        outputs = model(batch.inputs)
        soft = task.distillation_loss(outputs, teacher.for_batch(batch), temperature)
        if alpha == 1:
            return soft
        return alpha * soft + (1 - alpha) * task.loss(outputs, batch.targets, label_smoothing)

    return objective
