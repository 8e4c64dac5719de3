"""A view of a data set that refuses some of its splits: only the stage that measures may read `test`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compress.errors import DataError
from compress.tasks.protocol import Batch, DataSet, SplitInfo, SplitName


@dataclass(frozen=True)
class RestrictedDataSet:
    """Reads of the splits in `allowed` pass; others raise DataError. Counts of all splits may be asked for."""

    data: DataSet
    allowed: frozenset[SplitName]

    @property
    def digest(self) -> str:
        return self.data.digest

    @property
    def labels(self) -> tuple[str, ...]:
        return self.data.labels

    def info(self, split: SplitName) -> SplitInfo:
        return self.data.info(split)

    def training_batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        self._check("train")
        return self.data.training_batches(batch_size, seed, epoch, start)

    def evaluation_batches(self, split: SplitName, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        self._check(split)
        return self.data.evaluation_batches(split, batch_size, limit)

    def restricted(self, splits: Sequence[SplitName]) -> DataSet:
        """Can only narrow: splits that this view refuses stay refused."""
        return RestrictedDataSet(self.data, self.allowed & frozenset(splits))

    def _check(self, split: SplitName) -> None:
        if split not in self.allowed:
            allowed = ", ".join(sorted(self.allowed)) or "none"
            raise DataError(f"the {split} split must not be read here (allowed: {allowed})")


def unrestricted(data: DataSet) -> DataSet:
    """The data set behind its views, for what describes it as a whole (sizes, labels); not for reading splits."""
    while isinstance(data, RestrictedDataSet):
        data = data.data
    return data
