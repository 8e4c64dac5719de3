"""The training loop of every task and every training stage: read `train`, `_train_epoch`, then `Run.optimize`."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from compress.tasks.protocol import DataSet, Task
from compress.training.allocator import keep_freed_memory
from compress.training.checkpoint import Checkpoint, fingerprint
from compress.training.freeze import frozen, training_mode
from compress.training.placement import placed
from compress.training.progress import Progress, Reporter
from compress.training.reproducible import collector_paused, reproducible
from compress.training.run import Objective, Penalty, Run, task_objective
from compress.training.schedule import learning_rate
from compress.training.settings import TrainingSettings
from compress.training.state import EpochRecord, State, copy_weights

if TYPE_CHECKING:
    from torch import nn


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
    """Trains `model` in place and leaves the chosen weights in it, on the CPU and in evaluation mode.

    `work` holds the full training state: called again after a kill with the same arguments and the same initial
    weights, training continues where it was, bit-equal on CPU, and a finished run returns at once. Give every training
    run a `work` folder of its own. `objective` replaces the task's loss, `penalty` is added to it, `on_epoch(epoch,
    model)` is called after each epoch's validation; all three must depend on their arguments alone. Global random
    states are seeded inside and are afterwards what they were before. Only train and validation are read.

    Raises StageError for a `freeze` pattern without a match (naming near ones) and for a loss or gradient that is not
    finite (naming the iteration, and the first module whose output or gradient is not).
    """
    keep_freed_memory()
    data = data.restricted(("train", "validation"))
    checkpoint = Checkpoint(work, fingerprint(model, settings, seed, device, data.digest), settings.checkpoint_every)
    stored = checkpoint.read()
    if stored is not None and stored["state"]["finished"]:
        model.load_state_dict(stored["model"])
        return _result(model, State.from_json(stored["state"]), settings, stored["notes"])
    with (
        frozen(model, settings.freeze) as norms,
        reproducible(seed, device),
        placed(model, device, settings.memory_format) as channels_last,
        collector_paused(),
    ):
        objective = objective or task_objective(task, settings.label_smoothing)
        run = Run.start(model, settings, device, channels_last, objective, penalty)
        if stored is not None:
            run.restore(stored)
            progress(f"continues in epoch {run.state.epoch + 1} at batch {run.state.batch}")
        report = Reporter(progress, settings.epochs, _steps_per_epoch(data, settings), run.state)
        while run.state.epoch < settings.epochs and not run.state.stopped:
            training_mode(model, norms)
            _train_epoch(run, task, data, seed, checkpoint, report)
            if on_epoch is not None:
                on_epoch(run.state.epoch - 1, model)
            if checkpoint.due(epoch_ended=True):
                checkpoint.write(run.content())
            gc.collect()
            report.epoch(run.state)
        model.load_state_dict(run.chosen)
    run.state.finished = True
    checkpoint.write({"state": run.state.to_json(), "model": model.state_dict(), "notes": run.notes()})
    return _result(model, run.state, settings, run.notes())


def _train_epoch(run: Run, task: Task, data: DataSet, seed: int, checkpoint: Checkpoint, report: Reporter) -> None:
    """What is left of the epoch, then validation; keeps the weights if they are the best so far."""
    state, settings = run.state, run.settings
    total = _steps_per_epoch(data, settings) * settings.epochs
    started = monotonic() - state.epoch_seconds
    for batch in data.training_batches(settings.batch_size, seed, state.epoch, state.batch):
        loss = run.optimize(batch, learning_rate(settings, state.step, total))
        state.epoch_seconds = monotonic() - started
        if checkpoint.due():
            checkpoint.write(run.content())
        report.step(state, loss)
    with run.average.applied() if run.average else nullcontext():
        validation = task.evaluate(run.model, data, "validation", settings.evaluation_batch_size, run.device)
        state.epoch_seconds = monotonic() - started
        rate = learning_rate(settings, state.step - 1, total)
        if state.close_epoch(validation, task.metric, rate, settings) or settings.keep == "last":
            run.chosen = copy_weights(run.model)


def _steps_per_epoch(data: DataSet, settings: TrainingSettings) -> int:
    return max(1, data.info("train").count // settings.batch_size)


def _result(model: nn.Module, state: State, settings: TrainingSettings, notes: dict[str, Any]) -> TrainingResult:
    model.eval()
    kept = state.best_epoch if settings.keep == "best" else state.epoch - 1
    return TrainingResult(
        validation=state.history[kept].validation,
        best_epoch=state.best_epoch,
        epochs_run=state.epoch,
        steps=state.step,
        seconds=sum(record.seconds for record in state.history),
        history=tuple(state.history),
        notes={**notes, "epochs_run": state.epoch, "kept_epoch": kept, "stopped_early": state.stopped},
    )
