"""A teacher's outputs for training batches: computed once, without a graph, and kept in the store."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.distillation.store import OutputStore
from compress.distillation.teacher import Teacher
from compress.tasks.protocol import Batch, DataSet
from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor

_PLAIN_BATCH = 256


class TeacherOutputs:
    """The teacher's outputs (B, K) for a training batch, from the store or computed and stored.

    Outputs depend, in the last bits, on the batch that they are computed in. So that a run gives the same weights
    whether the store was full or empty, samples as they are (augmentation id 0) are computed once for all runs, in the
    order of the manifest, and augmented ones once for each order of batches. `computed` and `reused` count samples.
    """

    def __init__(
        self,
        teacher: Teacher,
        data: DataSet,
        settings: TrainingSettings,
        *,
        seed: int,
        device: str,
        folder: Path,
        keep: bool = True,
    ) -> None:
        """`settings` and `seed` are those of the training run. With `keep=False` every batch is computed."""
        self.teacher, self.data, self.device = teacher, data, device
        self.computed = self.reused = 0
        self.plain: OutputStore | None = None
        self.augmented: OutputStore | None = None
        if keep:
            self._open(settings, seed, folder)

    def _open(self, settings: TrainingSettings, seed: int, folder: Path) -> None:
        first = next(iter(self.data.training_batches(settings.batch_size, seed, 0)))
        as_is = next(iter(self.data.evaluation_batches("train", _PLAIN_BATCH)))
        answers = self._compute(as_is)
        width = answers.shape[1]
        # The digest names weights and builder; what the teacher answers tells when the builder's code has changed.
        common = [self.device, hashlib.sha256(answers.tobytes()).hexdigest()]
        order = [seed, settings.batch_size, settings.accumulation, *common]
        self.augmented = OutputStore(folder / self._key("augmented", first, order), width)
        if not first.augmentation_ids.any():  # most samples come as they are
            self.plain = OutputStore(folder / self._key("plain", as_is, common), width)
            for batch in self.data.evaluation_batches("train", _PLAIN_BATCH):
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
        if self.augmented is None:
            values = self._compute(batch)
        elif self.plain is not None and as_is.all():
            values = self._outputs(self.plain, batch)
        else:
            values = self._outputs(self.augmented, batch)
            if self.plain is not None and as_is.any():
                kept, known = self.plain.get(batch.sample_ids, batch.augmentation_ids)
                values = np.where((as_is & known)[:, None], kept, values)
        return torch.from_numpy(values).to(self.device)

    def _outputs(self, store: OutputStore, batch: Batch) -> Any:
        """(B, K) float32; computes and stores what is missing."""
        import numpy as np

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
