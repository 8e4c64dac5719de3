"""A teacher's outputs for training batches: computed once, without a graph, and kept in the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.distillation.settings import DistillationSettings
from compress.distillation.store import OutputStore
from compress.models.network import check_contract, parent_network
from compress.models.variant import TorchVariant
from compress.tasks.protocol import Batch, DataSet, Task
from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compress.training.loop import Objective
    from compress.training.progress import Progress

_PLAIN_BATCH = 256


@dataclass
class Teacher:
    """A variant that teaches, its network, and its own score on validation."""

    name: str
    digest: str
    module: nn.Module
    validation: dict[str, float]


def open_teacher(
    variant: TorchVariant, task: Task, data: DataSet, batch_size: int, device: str, progress: Progress
) -> Teacher:
    """Loads the teacher, measures it on validation and says so. Raises StageError when it does not fit the data."""
    module = parent_network(variant).module
    check_contract(module, task.contract(data))
    module = module.to(device).eval().requires_grad_(False)
    validation = task.evaluate(module, data, "validation", batch_size, device)
    score = ", ".join(f"{name} {value:.2%}" for name, value in validation.items())
    progress(f"teacher {variant.name}: validation {score}", **validation)
    return Teacher(variant.name, variant.digest, module, validation)


class TeacherOutputs:
    """The teacher's outputs (B, K) for a training batch, from the store or computed and stored.

    Outputs depend, in the last bits, on the batch that they are computed in. So that a run gives the same weights
    whether the store was full or empty, samples as they are (augmentation id 0) are computed once for all runs, in the
    order of the manifest, and augmented ones once for each order of batches. `computed` and `reused` count samples.
    """

    def __init__(
        self, teacher: Teacher, data: DataSet, settings: TrainingSettings, seed: int, device: str, folder: Path
    ) -> None:
        self.teacher, self.data, self.device = teacher, data, device
        self.computed = self.reused = 0
        first = next(iter(data.training_batches(settings.batch_size, seed, 0)))
        as_is = next(iter(data.evaluation_batches("train", _PLAIN_BATCH, limit=len(first.sample_ids))))
        width = self._compute(as_is).shape[1]
        order = [seed, settings.batch_size, settings.accumulation, device]
        self.augmented = OutputStore(folder / self._key("augmented", first, order), width)
        self.plain: OutputStore | None = None
        if not first.augmentation_ids.any():  # most samples come as they are
            self.plain = OutputStore(folder / self._key("plain", as_is, [device]), width)
            for batch in data.evaluation_batches("train", _PLAIN_BATCH):
                self._outputs(self.plain, batch)
        self.reused = 0

    def _key(self, kind: str, batch: Batch, order: list[Any]) -> str:
        """Names a set of outputs; the inputs of one batch stand for preprocessing, augmentation and order."""
        import numpy as np

        inputs = hashlib.sha256(np.ascontiguousarray(batch.inputs.numpy()).tobytes()).hexdigest()
        ids = hashlib.sha256(batch.sample_ids.tobytes() + batch.augmentation_ids.tobytes()).hexdigest()
        content = json.dumps([kind, self.teacher.digest, self.data.digest, inputs, ids, order])
        return f"{kind}-{hashlib.sha256(content.encode()).hexdigest()}"

    def __call__(self, batch: Batch) -> Tensor:
        """(B, K) float32 on the device, in the order of the batch; no graph hangs on it."""
        import numpy as np
        import torch

        as_is = batch.augmentation_ids == 0
        if self.plain is not None and as_is.all():
            values = self._outputs(self.plain, batch)
        elif self.plain is not None and as_is.any():
            kept, known = self.plain.get(batch.sample_ids, batch.augmentation_ids)
            values = np.where((as_is & known)[:, None], kept, self._outputs(self.augmented, batch))
        else:
            values = self._outputs(self.augmented, batch)
        return torch.from_numpy(values).to(self.device)

    def _outputs(self, store: OutputStore, batch: Batch) -> Any:
        import numpy as np

        """(B, K) float32; computes and stores what is missing."""
        values, known = store.get(batch.sample_ids, batch.augmentation_ids)
        self.reused += int(known.sum())
        if known.all():
            return values
        # The whole batch, because the outputs of a part could differ from it in the last bits.
        fresh = self._compute(batch)
        missing = ~known
        store.add(batch.sample_ids[missing], batch.augmentation_ids[missing], fresh[missing])
        self.computed += int(missing.sum())
        return np.where(known[:, None], values, fresh)

    def _compute(self, batch: Batch) -> Any:
        import torch

        device_type = self.device.partition(":")[0]
        with torch.inference_mode(), torch.autocast(device_type, enabled=False):
            return self.teacher.module(batch.inputs.to(self.device)).float().cpu().numpy()


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
