"""A collection of images that are in memory already."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compress.tasks.image_classification.collection import ImageRecord, Loss

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ArrayImages:
    """`images[i]` are the pixels of `records[i]`: uint8, (H, W), (H, W, 1) or (H, W, 3)."""

    records: Sequence[ImageRecord]
    images: Sequence[NDArray[np.uint8]]
    classes: tuple[str, ...] | None = None
    lost: Mapping[str, Loss] = field(default_factory=dict)

    def read(self, index: int) -> NDArray[np.uint8]:
        from compress.tasks.image_classification.decode import to_pixels

        return to_pixels(self.images[index])


def pixel_digest(image: NDArray[np.uint8]) -> str:
    """SHA-256 over shape and pixels."""
    return hashlib.sha256(f"{image.shape}".encode() + image.tobytes()).hexdigest()
