"""Images with their splits, as batches. Every order is a function of the arguments; nothing random is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compress.tasks.image_classification import augment
from compress.tasks.image_classification.pixels import Pixels, one_ahead
from compress.tasks.image_classification.settings import Augmentation
from compress.tasks.protocol import Batch, DataSet, SplitInfo, SplitName
from compress.tasks.restricted import RestrictedDataSet
from edge_runtime.contract import ImagePreprocess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ImageDataSet:
    """`targets[i]` and `positions[i]` are the class of sample `i` and its position in the source's collection.

    `members` are the sample ids of each split, in the order of the manifest, which is shuffled once: the first `n`
    samples of a split are a random draw from it.
    """

    digest: str
    manifest: Path
    labels: tuple[str, ...]
    spec: ImagePreprocess
    augmentation: Augmentation
    pixels: Pixels
    targets: NDArray[np.int64]
    positions: NDArray[np.int64]
    members: Mapping[SplitName, NDArray[np.int64]]
    skipped: Mapping[SplitName, tuple[str, ...]]

    def info(self, split: SplitName) -> SplitInfo:
        counts = Counter(self.targets[self.members[split]].tolist())
        per_class = {label: counts.get(index, 0) for index, label in enumerate(self.labels)}
        return SplitInfo(split, len(self.members[split]), per_class, self.skipped.get(split, ()))

    def training_batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Shuffled by (seed, epoch). The last batch is left out when it is smaller, unless it is the only one."""
        import numpy as np

        members = self.members["train"]
        order = members[np.random.default_rng([seed, epoch]).permutation(len(members))]
        count = max(1, len(order) // batch_size)
        chunks = (order[i * batch_size : (i + 1) * batch_size] for i in range(start, count))
        return self._ahead(self._augmented(ids, seed, epoch) for ids in chunks)

    def evaluation_batches(self, split: SplitName, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """The first `limit` samples of the split, as they are, the last batch with what is left."""
        ids = self.members[split][:limit]
        chunks = (ids[start : start + batch_size] for start in range(0, len(ids), batch_size))
        return self._ahead(self._plain(chunk) for chunk in chunks)

    def restricted(self, splits: Sequence[SplitName]) -> DataSet:
        return RestrictedDataSet(self, frozenset(splits))

    def _ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Decoding is worth a thread; a look-up in memory is not."""
        return batches if self.pixels.kept is not None else one_ahead(batches)

    def _augmented(self, ids: NDArray[np.int64], seed: int, epoch: int) -> Batch:
        draws = augment.draw(self.augmentation, seed, epoch, ids)
        images = augment.apply(self.augmentation, draws, self.pixels.get(self.positions[ids]))
        return self._batch(images, ids, augment.augmentation_ids(self.augmentation, draws))

    def _plain(self, ids: NDArray[np.int64]) -> Batch:
        import numpy as np

        return self._batch(self.pixels.get(self.positions[ids]), ids, np.zeros(len(ids), np.int64))

    def _batch(self, images: NDArray[np.uint8], ids: NDArray[np.int64], augmentation: NDArray[np.int64]) -> Batch:
        import torch

        from edge_runtime.preprocess import normalize

        # Channels last in memory, which is what convolutions on CPUs want; NCHW by its shape.
        inputs = torch.from_numpy(normalize(images, self.spec)).permute(0, 3, 1, 2)
        return Batch(inputs, torch.from_numpy(self.targets[ids]), ids, augmentation)
