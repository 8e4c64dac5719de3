"""The loss of distillation, against the formula computed by hand."""

from __future__ import annotations

import pytest
import torch

from compress.distillation.objective import distillation_objective
from compress.distillation.settings import DistillationSettings
from tests.toy import ToyData, ToyTask, network


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_loss_is_the_weighted_sum_of_soft_and_hard_targets(alpha, temperature):
    student, batch = network("plain").module.eval(), next(ToyData().training_batches(8, 0, 0))
    goal = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    settings = DistillationSettings(temperature=temperature, alpha=alpha)
    loss = distillation_objective(ToyTask(), lambda _: goal, settings, 0.0)(student, batch)
    outputs = student(batch.inputs)
    p, q = (goal / temperature).softmax(1), (outputs / temperature).softmax(1)
    soft = (p * (p.log() - q.log())).sum(1).mean() * temperature**2
    hard = -outputs.log_softmax(1)[torch.arange(8), batch.targets].mean()
    torch.testing.assert_close(loss, alpha * soft + (1 - alpha) * hard)


def test_a_student_equal_to_its_teacher_has_no_soft_loss():
    student, batch = network("plain").module.eval(), next(ToyData().training_batches(8, 0, 0))
    settings = DistillationSettings(alpha=1.0)
    objective = distillation_objective(ToyTask(), lambda b: student(b.inputs).detach(), settings, 0.0)
    assert abs(float(objective(student, batch).detach())) < 1e-6
