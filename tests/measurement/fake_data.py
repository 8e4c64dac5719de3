"""A data set in memory that follows the DataSet protocol: four classes that a linear model can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from compress.errors import DataError
from compress.tasks.protocol import Batch, DataSet, SplitInfo, SplitName
from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract

LABELS = ("a", "b", "c", "d")
_START: dict[str, int] = {"train": 3000, "validation": 2000, "calibration": 1000, "test": 0}


class FakeData:
    """`sizes` by split. Each sample is noise with a bright spot whose corner is its class, normalized by the contract.

    `change` spoils the inputs, `only` leaves these classes, `claims_all` still reports all of them, `lost` names
    samples that the split counts and cannot read.
    """

    digest = "digest-of-fake-data"
    labels = LABELS

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        size: int = 4,
        sorted_by_class: bool = False,
        only: tuple[int, ...] = (0, 1, 2, 3),
        claims_all: bool = False,
        lost: tuple[str, ...] = (),
        change: Callable[[NDArray[Any]], NDArray[Any]] = lambda inputs: inputs,
    ) -> None:
        self.sizes, self.size, self.only, self.claims_all = sizes, size, only, claims_all
        self.sorted_by_class, self.lost, self.change = sorted_by_class, lost, change
        self.read: set[str] = set()

    @staticmethod
    def contract(size: int = 4) -> Contract:
        spec = ImagePreprocess(size, size, "RGB", "none", (0.5, 0.4, 0.3), (0.5, 0.5, 0.25))
        return Contract(
            task="image-classification",
            inputs=(InputContract("input", (1, 3, size, size), "float32", "NCHW", spec),),
            outputs=(OutputContract("output", (1, len(LABELS)), "float32", "logits"),),
            labels=LABELS,
        )

    def targets(self, split: str) -> NDArray[np.int64]:
        count = self.sizes.get(split, 0) - len(self.lost)
        targets = np.array([self.only[index % len(self.only)] for index in range(max(count, 0))], dtype=np.int64)
        return np.sort(targets) if self.sorted_by_class else targets

    def inputs(self, split: str, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        targets = self.targets(split)[start:stop]
        half = self.size // 2
        spec = self.contract(self.size).inputs[0].preprocess
        assert spec is not None
        pixels = np.empty((len(targets), self.size, self.size, 3), dtype=np.uint8)
        for row, target in enumerate(targets):
            rng = np.random.default_rng(_START[split] + start + row)
            pixels[row] = rng.integers(0, 80, pixels.shape[1:], dtype=np.uint8)
            top, left = (target // 2) * half, (target % 2) * half
            pixels[row, top : top + half, left : left + half] += np.uint8(90)
        values = (pixels / spec.divide_by - np.array(spec.mean)) / np.array(spec.std)
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2).astype(np.float32))

    def info(self, split: SplitName) -> SplitInfo:
        counts = np.bincount(self.targets(split), minlength=len(LABELS))
        per_class = {label: int(count) for label, count in zip(LABELS, counts, strict=True)}
        if self.claims_all:
            per_class = dict.fromkeys(LABELS, 10)
        return SplitInfo(split, self.sizes.get(split, 0), per_class, self.lost)

    def training_batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        raise DataError("nothing is trained here")

    def evaluation_batches(self, split: SplitName, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        self.read.add(split)
        targets = self.targets(split)[:limit]
        for start in range(0, len(targets), batch_size):
            stop = min(start + batch_size, len(targets))
            yield Batch(
                inputs=torch.from_numpy(self.change(self.inputs(split, start, stop))),
                targets=torch.from_numpy(targets[start:stop]),
                sample_ids=np.arange(start, stop, dtype=np.int64) + _START[split],
                augmentation_ids=np.zeros(stop - start, dtype=np.int64),
            )

    def restricted(self, splits: Sequence[SplitName]) -> DataSet:
        return self


CONTRACT = FakeData.contract()
