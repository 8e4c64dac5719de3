"""Outputs of a teacher, computed once for each sample and augmentation, kept on disk and reused by later runs.

Each process appends records to a log of its own, so that a killed run loses nothing and two runs at once do not
disturb each other; every log that is there when the outputs are opened is read. An incomplete last record, left by a
kill in the middle of a write, is passed over. Outputs are computed in chunks of one fixed size, so that a sample's
output does not depend on which other samples came with it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from compress.tasks.protocol import Batch

if TYPE_CHECKING:
    from torch import Tensor, nn

_CHUNK = 64
"""Samples of one forward pass of the teacher; a smaller rest is filled up with zeros."""


@dataclass
class OutputLog:
    """One append-only file of records: sample id, augmentation id, output (classes,) float32."""

    path: Path
    record: np.dtype[Any]
    rows: np.ndarray[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Maps the complete records that the file has by now."""
        complete = self.path.stat().st_size // self.record.itemsize if self.path.exists() else 0
        self.rows = np.memmap(self.path, self.record, "r", shape=(complete,)) if complete else np.empty(0, self.record)


class TeacherOutputs:
    """`for_batch` gives the teacher's outputs of a batch, from disk where they are known.

    Outputs belong to `teacher_digest` and `data_digest`; the latter covers samples, preprocessing and augmentation.
    With `keep=False` nothing is read or written, and every batch is computed.
    """

    def __init__(
        self,
        teacher: nn.Module,
        outputs: int,
        *,
        folder: Path,
        teacher_digest: str,
        data_digest: str,
        device: str,
        keep: bool = True,
    ) -> None:
        self._teacher = teacher.eval().requires_grad_(False).to(device)
        self._device = device
        self._keep = keep
        self._record = np.dtype([("sample", "<i8"), ("augmentation", "<i8"), ("output", "<f4", (outputs,))])
        key = hashlib.sha256(f"{teacher_digest}\n{data_digest}\n{outputs}\n{device}".encode()).hexdigest()
        self._folder = folder / "teacher-outputs" / key
        self._index: dict[tuple[int, int], tuple[int, int]] = {}
        self._logs: list[OutputLog] = []
        self.computed = 0
        """Outputs that the teacher was run for."""
        self.reused = 0
        """Outputs that were known."""
        if keep:
            self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.log")):
            log = OutputLog(path, self._record)
            self._logs.append(log)
            number = len(self._logs) - 1
            for row, (sample, augmentation) in enumerate(
                zip(log.rows["sample"].tolist(), log.rows["augmentation"].tolist(), strict=True)
            ):
                self._index.setdefault((sample, augmentation), (number, row))
        own = self._folder / f"{uuid.uuid4().hex}.log"
        self._logs.append(OutputLog(own, self._record))

    def for_batch(self, batch: Batch) -> Tensor:
        """Outputs (B, classes) float32 on the device, without a graph."""
        keys = list(zip(batch.sample_ids.tolist(), batch.augmentation_ids.tolist(), strict=True))
        missing = [position for position, key in enumerate(keys) if key not in self._index]
        self.computed += len(missing)
        self.reused += len(keys) - len(missing)
        if len(missing) == len(keys) and not self._keep:
            return self._forward(batch.inputs)
        if missing:
            outputs = self._forward(batch.inputs[missing])
            self._append([keys[position] for position in missing], outputs.cpu().numpy())
        return torch.from_numpy(np.stack([self._read(key) for key in keys])).to(self._device)

    def _append(self, keys: list[tuple[int, int]], outputs: np.ndarray[Any, Any]) -> None:
        log = self._logs[-1]
        records = np.empty(len(keys), self._record)
        records["sample"] = [sample for sample, _ in keys]
        records["augmentation"] = [augmentation for _, augmentation in keys]
        records["output"] = outputs
        known = len(log.rows)
        with log.path.open("ab", buffering=0) as file:
            content = records.tobytes()
            if file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(log.path))
        log.refresh()
        for offset, key in enumerate(keys):
            self._index.setdefault(key, (len(self._logs) - 1, known + offset))

    def _read(self, key: tuple[int, int]) -> np.ndarray[Any, Any]:
        number, row = self._index[key]
        output: np.ndarray[Any, Any] = self._logs[number].rows["output"][row]
        return output

    @torch.no_grad()
    def _forward(self, inputs: Tensor) -> Tensor:
        return torch.cat(list(self._chunks(inputs)))

    def _chunks(self, inputs: Tensor) -> Iterator[Tensor]:
        for start in range(0, len(inputs), _CHUNK):
            chunk = inputs[start : start + _CHUNK]
            filled = torch.zeros((_CHUNK, *chunk.shape[1:]), dtype=chunk.dtype, device=self._device)
            filled[: len(chunk)] = chunk
            yield self._teacher(filled)[: len(chunk)].float()
