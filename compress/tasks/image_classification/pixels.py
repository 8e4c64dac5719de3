"""Decoded and resized images, kept in memory when they fit, else decoded again by a few threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from compress.tasks.image_classification.collection import ImageCollection
from edge_runtime.contract import ImagePreprocess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
_THREADS = max(1, min(8, os.cpu_count() or 1))
_SHARE_OF_FREE_MEMORY = 0.25


@dataclass(frozen=True)
class Pixels:
    """`get` gives images as the network's size and colours, uint8; `edge_runtime.preprocess` does all of it."""

    collection: ImageCollection
    spec: ImagePreprocess
    kept: NDArray[np.uint8] | None
    """(N, H, W, C), filled as images are asked for."""
    filled: NDArray[np.bool_] | None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def get(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Images `indices` of the collection, uint8 (B, height, width, channels)."""
        if self.kept is None or self.filled is None:
            return self._read(indices)
        if not (filled := self.filled[indices]).all():
            missing = indices[~filled]
            pixels = self._read(missing)
            with self._lock:
                self.kept[missing] = pixels
                self.filled[missing] = True
        return self.kept[indices]

    def _read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        import numpy as np

        if len(indices) < 2 * _THREADS:
            return np.stack([self._read_one(int(index)) for index in indices])
        with ThreadPoolExecutor(_THREADS) as pool:  # Pillow decodes without holding the interpreter
            return np.stack(list(pool.map(self._read_one, indices.tolist(), chunksize=1)))

    def _read_one(self, index: int) -> NDArray[np.uint8]:
        from edge_runtime.preprocess import convert_colors, fit

        image = self.collection.read(index)[None]
        return fit(convert_colors(image, self.spec.color_order), self.spec)[0]


def pixels_of(collection: ImageCollection, spec: ImagePreprocess, cache: Literal["auto", "memory", "none"]) -> Pixels:
    """`auto` keeps images when all of them take at most a quarter of the free memory."""
    import numpy as np

    shape = (len(collection.records), spec.height, spec.width, spec.channels)
    size = int(np.prod(shape))
    if cache == "none" or (cache == "auto" and size > _SHARE_OF_FREE_MEMORY * _free_memory()):
        return Pixels(collection, spec, None, None)
    return Pixels(collection, spec, np.empty(shape, np.uint8), np.zeros(shape[0], bool))


def _free_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one being made by a thread while the caller works with the last."""
    with ThreadPoolExecutor(1) as pool:
        done = object()
        coming = pool.submit(next, items, done)
        while (item := coming.result()) is not done:
            coming = pool.submit(next, items, done)
            yield item  # type: ignore[misc]
