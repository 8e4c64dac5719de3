"""Outputs of a teacher on disk, by sample and augmentation, for all runs and epochs that need them again.

One folder holds files of fixed-size rows. Every process appends to a file of its own and reads the files of the others
as they were when it opened the folder, so that two can work at once; a row counts only when its checksum holds, so
that nothing half-written by a killed process is ever used. Files are read through memory maps.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAP_AFTER = 1 << 16
"""New rows that are kept in memory before they are read from the file."""
_CHECK = 0x9E3779B9


class OutputStore:
    """Rows of `width` float32 numbers. Sample ids are below 2^32 and augmentation ids below 2^31, both from 0."""

    def __init__(self, folder: Path, width: int) -> None:
        """Opens the folder, and creates it if need be."""
        import numpy as np

        self.folder, self.width = folder, width
        folder.mkdir(parents=True, exist_ok=True)
        self._type = np.dtype([("key", "<i8"), ("values", "<f4", (width,)), ("check", "<u4")])
        self._own = folder / f"{os.getpid()}-{secrets.token_hex(4)}.{self._suffix}"
        self._recent: dict[int, NDArray[np.float32]] = {}
        self._load()

    @property
    def _suffix(self) -> str:
        return f"{self.width}.rows"

    def _load(self) -> None:
        """Maps all files and sorts the keys of their valid rows."""
        import numpy as np

        self._maps: list[Any] = []
        keys, files, rows = [], [], []
        for path in sorted(self.folder.glob(f"*.{self._suffix}")):
            count = path.stat().st_size // self._type.itemsize
            if count == 0:
                continue
            mapped = np.memmap(path, self._type, mode="r", shape=(count,))
            valid = np.flatnonzero(mapped["check"] == _checksum(mapped["key"], mapped["values"]))
            keys.append(mapped["key"][valid])
            rows.append(valid)
            files.append(np.full(len(valid), len(self._maps)))
            self._maps.append(mapped)
        key = np.concatenate(keys) if keys else np.empty(0, np.int64)
        # The first of equal keys in the order of file names: they were computed from the same inputs.
        self._keys, first = np.unique(key, return_index=True)
        self._files = np.concatenate(files)[first] if files else np.empty(0, np.int64)
        self._rows = np.concatenate(rows)[first] if rows else np.empty(0, np.int64)
        self._recent.clear()

    def __len__(self) -> int:
        return len(self._keys) + len(self._recent)

    def get(
        self, sample_ids: NDArray[np.int64], augmentation_ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Values (B, width), and which of them are known (B,); unknown ones are zero."""
        import numpy as np

        keys = _keys(sample_ids, augmentation_ids)
        values = np.zeros((len(keys), self.width), np.float32)
        known = np.zeros(len(keys), bool)
        places = np.searchsorted(self._keys, keys)
        inside = places < len(self._keys)
        known[inside] = self._keys[places[inside]] == keys[inside]
        for file, mapped in enumerate(self._maps):
            chosen = np.flatnonzero(known)
            chosen = chosen[self._files[places[chosen]] == file]
            values[chosen] = mapped["values"][self._rows[places[chosen]]]
        for index in np.flatnonzero(~known).tolist():
            recent = self._recent.get(int(keys[index]))
            if recent is not None:
                values[index], known[index] = recent, True
        return values, known

    def add(
        self, sample_ids: NDArray[np.int64], augmentation_ids: NDArray[np.int64], values: NDArray[np.float32]
    ) -> None:
        """Appends rows; they survive the death of the process from then on."""
        import numpy as np

        rows = np.empty(len(values), self._type)
        rows["key"] = _keys(sample_ids, augmentation_ids)
        rows["values"] = values
        rows["check"] = _checksum(rows["key"], rows["values"])
        content = rows.tobytes()
        with self._own.open("ab", buffering=0) as file:
            if file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._own))
        for key, value in zip(rows["key"].tolist(), rows["values"], strict=True):
            self._recent[key] = value
        if len(self._recent) >= _MAP_AFTER:
            self._load()


def _keys(sample_ids: NDArray[np.int64], augmentation_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    for ids, bits in ((sample_ids, 32), (augmentation_ids, 31)):
        if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < 1 << bits):
            raise ValueError(f"ids must be from 0 to 2^{bits} - 1, found {int(ids.min())} to {int(ids.max())}")
    return (augmentation_ids << 32) | sample_ids


def _checksum(keys: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Of each row: a sum of its words with position-dependent odd factors, and never zero for a row of zeros."""
    import numpy as np

    words = np.concatenate([keys[:, None].copy().view(np.uint32), np.ascontiguousarray(values).view(np.uint32)], axis=1)
    factors = (np.arange(words.shape[1], dtype=np.uint32) * np.uint32(2) + np.uint32(1)) * np.uint32(_CHECK)
    return (words * factors).sum(axis=1, dtype=np.uint32) + np.uint32(_CHECK)
