"""One optimizer step, and everything that a step works with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compress.errors import StageError
from compress.tasks.protocol import Batch, Task
from compress.training.ema import MovingAverage
from compress.training.finite import explain
from compress.training.micro_batches import micro_batches, to_device
from compress.training.optimizer import build_optimizer
from compress.training.precision import Precision, resolve_precision
from compress.training.reproducible import random_states, restore_random_states
from compress.training.settings import TrainingSettings
from compress.training.state import State

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

Objective = Callable[["nn.Module", Batch], "Tensor"]
"""Loss of one (micro-)batch, mean over its samples; the batch is on the device. Must run the model itself."""

Penalty = Callable[["nn.Module"], "Tensor | None"]
"""A term added to the loss once per optimizer step, e.g. a sparsity regularizer."""


def task_objective(task: Task, label_smoothing: float) -> Objective:
    """The task's own loss of the model's outputs."""

    def objective(model: nn.Module, batch: Batch) -> Tensor:
        return task.loss(model(batch.inputs), batch.targets, label_smoothing)

    return objective


@dataclass
class Run:
    """What of this changes from step to step is what `content` gives and `restore` takes."""

    model: nn.Module
    settings: TrainingSettings
    device: str
    channels_last: bool
    objective: Objective
    penalty: Penalty | None
    optimizer: Optimizer
    precision: Precision
    average: MovingAverage | None
    state: State = field(default_factory=State)
    chosen: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the epoch that is best so far (`keep: best`), or of the last."""

    @classmethod
    def start(
        cls,
        model: nn.Module,
        settings: TrainingSettings,
        device: str,
        channels_last: bool,
        objective: Objective,
        penalty: Penalty | None,
    ) -> Run:
        """Raises StageError when nothing can be trained, or not in this precision."""
        optimizer = build_optimizer(model, settings)
        average = MovingAverage(model, settings.ema) if settings.ema is not None else None
        precision = resolve_precision(settings.precision, device)
        return cls(model, settings, device, channels_last, objective, penalty, optimizer, precision, average)

    def optimize(self, batch: Batch, rate: float) -> float:
        """One optimizer step; returns the loss, mean over the batch. Raises StageError when it is not finite."""
        import torch

        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        batch = to_device(batch, self.device, self.channels_last)
        random = torch.get_rng_state()
        terms = []
        for part, share in micro_batches(batch, self.settings.accumulation):
            loss = self._loss(self.model, part)
            term = loss if share == 1.0 else loss * share
            self.precision.backward(term)
            terms.append(term.detach())
        if self.penalty is not None and (added := self.penalty(self.model)) is not None:
            self.precision.backward(added)
            terms.append(added.detach())
        self.precision.unscale(self.optimizer)
        trained = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([p.grad for p in trained])
        value = self._finite_loss(sum(terms[1:], start=terms[0]), norm, batch, random)
        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(trained, self.settings.clip_norm, norm)
        if self.precision.step(self.optimizer) and self.average is not None:
            self.average.update()
        self.state.step += 1
        self.state.batch += 1
        self.state.loss_sum += value
        return value

    def _loss(self, model: nn.Module, batch: Batch) -> Tensor:
        with self.precision.autocast():
            return self.objective(model, batch)

    def _finite_loss(self, loss: Tensor, norm: Tensor, batch: Batch, random: Tensor) -> float:
        """The loss as a number. With loss scaling, gradients may overflow: such a step is left out, not an error."""
        import torch

        value, size = torch.stack([loss.double(), norm.double()]).tolist()  # one transfer from the device
        if math.isfinite(value) and (self.precision.scaler is not None or math.isfinite(size)):
            return float(value)
        what = "the norm of the gradient" if math.isfinite(value) else "the loss"
        number = size if math.isfinite(value) else value
        torch.set_rng_state(random)
        parts = [part for part, _ in micro_batches(batch, self.settings.accumulation)]
        raise StageError(
            f"{what} is {number} at iteration {self.state.step} (epoch {self.state.epoch + 1}, batch "
            f"{self.state.batch}): {explain(self.model, parts, self._loss)}"
        )

    def content(self) -> dict[str, Any]:
        """The full training state, in types that `torch.load(weights_only=True)` reads."""
        return {
            "state": self.state.to_json(),
            "model": self.model.state_dict(),
            "chosen": self.chosen,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.precision.scaler.state_dict() if self.precision.scaler else {},
            "skipped_steps": self.precision.skipped_steps,
            "average": self.average.state() if self.average else [],
            "average_updates": self.average.updates if self.average else 0,
            "random": random_states(self.precision.device_type == "cuda"),
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        self.state = State.from_json(stored["state"])
        self.model.load_state_dict(stored["model"])
        self.chosen = {name: tensor.to(self.device) for name, tensor in stored["chosen"].items()}
        self.optimizer.load_state_dict(stored["optimizer"])
        if self.precision.scaler:
            self.precision.scaler.load_state_dict(stored["scaler"])
        self.precision.skipped_steps = stored["skipped_steps"]
        if self.average:
            self.average.restore(stored["average"], stored["average_updates"])
        restore_random_states(stored["random"])

    def notes(self) -> dict[str, Any]:
        """For the report: what was decided, and what it came to."""
        frozen = sum(p.numel() for p in self.model.parameters()) - self._trained()
        return {
            "precision": self.precision.name,
            "memory_format": "channels-last" if self.channels_last else "contiguous",
            "frozen_parameters": frozen,
            "skipped_steps": self.precision.skipped_steps,
        }

    def _trained(self) -> int:
        return sum(p.numel() for group in self.optimizer.param_groups for p in group["params"])
