"""The training loop of every task and of every stage that trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from compress.tasks.protocol import Batch, DataSet, Task
from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor, nn


class Progress(Protocol):
    def __call__(self, message: str, *, fraction: float | None = None, **fields: Any) -> None: ...


Objective = Callable[["nn.Module", Batch], "Tensor"]
"""Loss of one (micro-)batch, mean over its samples; the batch is on the device. Must run the model itself."""

Penalty = Callable[["nn.Module"], "Tensor | None"]
"""A term added to the loss once per optimizer step, e.g. a sparsity regularizer."""


@dataclass(frozen=True)
class EpochRecord:
    """`loss` is the mean training loss of the epoch, `validation` the metrics after it, `seconds` its wall time."""

    epoch: int
    loss: float
    validation: dict[str, float]
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class TrainingResult:
    """`validation` are the metrics of the weights that are now in the model (of `best_epoch` with `keep: best`).

    `epochs_run` may be less than asked for after early stopping. `seconds` counts all attempts of a resumed run.
    """

    validation: dict[str, float]
    best_epoch: int
    epochs_run: int
    steps: int
    seconds: float
    history: tuple[EpochRecord, ...]
    notes: dict[str, Any] = field(default_factory=dict)


def train(
    model: nn.Module,
    task: Task,
    data: DataSet,
    settings: TrainingSettings,
    *,
    seed: int,
    device: str,
    work: Path,
    progress: Progress,
    objective: Objective | None = None,
    penalty: Penalty | None = None,
    on_epoch: Callable[[int, nn.Module], None] | None = None,
) -> TrainingResult:
    """Trains `model` in place and leaves the chosen weights in it, in evaluation mode.

    `work` holds the full training state: called again after a kill with the same arguments and the same initial
    weights, training continues where it was, bit-equal on CPU, and a finished run returns at once. Give every training
    run a `work` folder of its own. `objective` replaces the task's loss, `penalty` is added to it, `on_epoch(epoch,
    model)` is called after each epoch's validation.

    Raises StageError for a `freeze` pattern without a match (naming near ones) and for a loss that is not finite
    (naming the iteration and the first module whose output or gradient is not finite).
    """
    raise NotImplementedError
