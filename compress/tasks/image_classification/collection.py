"""What a source gives: records of images, and a way to read one of them. Nothing is decoded until it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from compress.tasks.protocol import SplitName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One image. `digest` is the SHA-256 of its stored bytes; `error` says why it cannot be used ("" when it can).

    `name` is unique in its source and holds no path of the machine. `split` is the one the source names, if it does.
    """

    name: str
    class_name: str
    split: SplitName | None
    digest: str
    height: int
    width: int
    error: str = ""


@dataclass(frozen=True)
class Loss:
    """What a damaged container no longer gives: at least `count` images, of which split, and which share of all
    containers it is. How much a file that was cut off once held cannot be known, hence the share."""

    reason: str
    count: int
    share: float
    split: SplitName | None = None


class ImageCollection(Protocol):
    """`classes` is the order of the labels where the source knows it. `lost` holds damaged containers by name."""

    @property
    def records(self) -> Sequence[ImageRecord]: ...
    @property
    def classes(self) -> tuple[str, ...] | None: ...
    @property
    def lost(self) -> Mapping[str, Loss]: ...
    def read(self, index: int) -> NDArray[np.uint8]:
        """Record `index`, decoded: (H, W, 3) in RGB or (H, W, 1) in grey. Safe to call from several threads.

        Raises DataError when the bytes are no longer those of the record's digest.
        """
        ...
