"""A collection whose images lie in files, alone or as byte ranges of shards. Files are never unpacked or copied."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from compress.errors import DataError
from compress.tasks.image_classification.collection import ImageRecord, Loss

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ByteRange:
    """`size` bytes from `offset` of a file."""

    path: Path
    offset: int
    size: int


class _Handles:
    """Open descriptors by path, closed when the collection goes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, int] = {}
        weakref.finalize(self, _close_all, self._open)

    def read(self, where: ByteRange) -> bytes:
        with self._lock:
            if where.path not in self._open:
                self._open[where.path] = os.open(where.path, os.O_RDONLY | os.O_CLOEXEC)
            handle = self._open[where.path]
        return os.pread(handle, where.size, where.offset)


def _close_all(handles: dict[Path, int]) -> None:
    for handle in handles.values():
        os.close(handle)


@dataclass(frozen=True)
class FileImages:
    """`ranges[i]` holds the bytes of `records[i]`. Handles of shards stay open; one read is one `pread`."""

    records: Sequence[ImageRecord]
    ranges: Sequence[ByteRange]
    keep_open: bool
    lost: Mapping[str, Loss] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    _handles: _Handles = field(default_factory=_Handles, repr=False, compare=False)

    def read(self, index: int) -> NDArray[np.uint8]:
        from compress.tasks.image_classification.decode import decode

        record, where = self.records[index], self.ranges[index]
        data = self._handles.read(where) if self.keep_open else where.path.read_bytes()
        if hashlib.sha256(data).hexdigest() != record.digest:
            raise DataError(f"{record.name} in {where.path} has changed since it was indexed; start the run again")
        try:
            return decode(data)
        except ValueError as error:
            raise DataError(f"{record.name} in {where.path} cannot be decoded: {error}") from None
