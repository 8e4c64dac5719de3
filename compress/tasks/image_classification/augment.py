"""Random changes of training images, as a pure function of seed, epoch and sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compress.tasks.image_classification.settings import Augmentation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Draws:
    """What happens to each image of a batch: mirrored or not, and moved by whole pixels. All (B,)."""

    flip: NDArray[np.bool_]
    down: NDArray[np.int64]
    right: NDArray[np.int64]


def draw(settings: Augmentation, seed: int, epoch: int, sample_ids: NDArray[np.int64]) -> Draws:
    """The draws of these samples in this epoch; independent of the batch that they are in."""
    import numpy as np

    if settings.cycle is not None:
        epoch %= settings.cycle
    noise = _hash(sample_ids, seed, epoch)
    width = np.uint64(2 * settings.crop + 1)
    flip = (noise & np.uint64(1)).astype(bool) if settings.flip else np.zeros(len(sample_ids), bool)
    down = ((noise >> np.uint64(8)) % width).astype(np.int64) - settings.crop
    right = ((noise >> np.uint64(36)) % width).astype(np.int64) - settings.crop
    return Draws(flip, down, right)


def augmentation_ids(settings: Augmentation, draws: Draws) -> NDArray[np.int64]:
    """Equal numbers mean that the same was done; 0 means nothing."""
    width = 2 * settings.crop + 1
    return draws.flip + 2 * ((draws.down % width) * width + draws.right % width)


def apply(settings: Augmentation, draws: Draws, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Changed copies of (B, H, W, C) uint8; what moves in from outside is black."""
    import numpy as np

    if not settings.flip and not settings.crop:
        return images
    count, height, width, channels = images.shape
    crop = settings.crop
    padded = np.zeros((count, height + 2 * crop, width + 2 * crop, channels), np.uint8)
    padded[:, crop : crop + height, crop : crop + width] = images
    changed = np.empty_like(images)
    tops, lefts = (crop - draws.down).tolist(), (crop - draws.right).tolist()
    # A copy of a window costs a microsecond an image; one gather over all of them takes five times as long.
    for index, (flip, top, left) in enumerate(zip(draws.flip.tolist(), tops, lefts, strict=True)):
        window = padded[index, top : top + height, left : left + width]
        changed[index] = window[:, ::-1] if flip else window
    return changed


def _hash(sample_ids: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.uint64]:
    """64 well mixed bits a sample (the finalizer of splitmix64, Steele et al. 2014, over all three numbers)."""
    import numpy as np

    mixed = sample_ids.astype(np.uint64)
    for salt in (seed, epoch):
        mixed = mixed + np.uint64(((salt + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
