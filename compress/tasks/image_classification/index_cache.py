"""Reading every byte of a large data set to identify it is paid once: what was found is kept with the file's state.

A file counts as unchanged while device, inode, size, modification and change time are the same, and only if it had
been at rest when it was read (as git does it): a write within the clock's resolution would else go unseen.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple, dataclass
from hashlib import sha256
from pathlib import Path
from time import time_ns
from typing import Any

from compress.tasks.image_classification.collection import ImageRecord
from edge_runtime.files import write_atomically

INDEX_VERSION = 1
_AT_REST_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class FileState:
    """Equal states mean equal contents, for a file at rest."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path | str) -> FileState:
        status = os.stat(path)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Indexed:
    """One image within a file: its record, and where its bytes lie."""

    record: ImageRecord
    offset: int
    size: int


def index_path(cache: Path, kind: str, path: Path) -> Path:
    """Where the index of `path` is kept; holds no part of the path itself."""
    return cache / "indices" / f"{kind}-{sha256(os.fsencode(path.resolve())).hexdigest()}.json"


def load_index(path: Path) -> dict[str, Any]:
    """The stored index, or {} when there is none of this version or it is damaged (it is then built again)."""
    try:
        index = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return index if isinstance(index, dict) and index.get("version") == INDEX_VERSION else {}


def save_index(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"version": INDEX_VERSION, **content}, separators=(",", ":")).encode())


def state_to_json(state: FileState, read_at_ns: int) -> list[int] | None:
    """None when the file had changed so shortly before it was read that a later change could look the same."""
    return list(astuple(state)) if state.changed_ns + _AT_REST_NS < read_at_ns else None


def now_ns() -> int:
    return time_ns()
