"""Looks after the store: `edgepress cache ls`, `verify` and `gc`."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import Timeout

from compress.pipeline.files import sha256, walk
from compress.pipeline.record import Record
from compress.pipeline.session import forget_dead_runs, is_held, pinned_keys
from compress.pipeline.store import Damaged, Store, default_store
from compress.pipeline.text import shortened, size, table

_COUNTED = ("blobs", "results", "outputs", "work", "shared", "trash")
"""What takes space. Locks, failures and the history are left out: they are small and stay."""


@dataclass(frozen=True)
class Entry:
    """One thing in the store that can go on its own.

    `result`: what a stage gave; `work`: state of an attempt that did not end; `shared`: a by-product such as prepared
    data. `size_bytes` counts blobs shared with other results in full. `last_used` is seconds since the epoch.
    """

    kind: Literal["result", "work", "shared"]
    key: str
    stage: str
    names: tuple[str, ...]
    size_bytes: int
    created: float
    last_used: float
    in_use: bool


@dataclass(frozen=True)
class Listing:
    """Entries, most recently used first. `size_bytes` is the store on disk, shared blobs counted once."""

    store: Path
    entries: tuple[Entry, ...]
    size_bytes: int


@dataclass(frozen=True)
class Verification:
    """`damaged` describes each damaged result in a sentence; they have been dropped and will be computed again."""

    results: int
    blobs: int
    checked_bytes: int
    damaged: tuple[str, ...]


@dataclass(frozen=True)
class Collection:
    """What `gc` removed. `size_bytes` is the store afterwards; `reached` is False when what is in use is larger."""

    removed: tuple[Entry, ...]
    freed_bytes: int
    size_bytes: int
    reached: bool


def list_entries(store: Path | None = None) -> Listing:
    """What the store holds. Touches nothing."""
    opened = _existing(store)
    entries = sorted(_entries(opened), key=lambda entry: entry.last_used, reverse=True)
    return Listing(opened.path, tuple(entries), _Disk(opened).total)


def verify(store: Path | None = None) -> Verification:
    """Checks every blob and result by digest, and drops what is damaged."""
    opened = _existing(store)
    blobs, checked = 0, 0
    wrong: set[str] = set()
    for blob in _blobs(opened):
        blobs += 1
        with suppress(FileNotFoundError):  # collected in the meantime
            checked += blob.stat().st_size
            if sha256(blob) != blob.name:
                wrong.add(blob.name)
    keys = opened.stored_keys()
    damaged = [text for key in keys if (text := _drop_if_damaged(opened, key, wrong)) is not None]
    if wrong:
        with opened.exclusive():
            for blob in map(opened.blob, wrong):
                if blob.is_file() and sha256(blob) != blob.name:  # a run may have stored it anew
                    blob.unlink()
    return Verification(len(keys), blobs, checked, tuple(damaged))


def gc(max_size: int, store: Path | None = None) -> Collection:
    """Removes least recently used entries until the store has at most `max_size` bytes.

    Nothing that a live run uses is removed: neither its results nor what it is computing, nor, while any run lives,
    shared by-products. Leftovers of killed commits go in any case.
    """
    opened = _existing(store)
    if not opened.path.is_dir():
        return Collection((), 0, 0, reached=True)
    removed: list[Entry] = []
    with opened.exclusive():
        disk = _Disk(opened)
        before = disk.total
        forget_dead_runs(opened)
        blobs = _Blobs(opened, disk)
        blobs.drop_unreferenced()
        for leftover in _children(opened.path / "trash"):
            disk.delete(leftover)
        for entry in sorted(_entries(opened), key=lambda entry: entry.last_used):
            if disk.total <= max_size:
                break
            if not entry.in_use and _remove(opened, entry, blobs, disk):
                removed.append(entry)
    return Collection(tuple(removed), before - disk.total, disk.total, disk.total <= max_size)


def render_listing(listing: Listing) -> str:
    """The listing as a table for a terminal."""
    rows = [("key", "kind", "stage", "variants", "size", "last used")]
    for entry in listing.entries:
        used = "in use" if entry.in_use else datetime.fromtimestamp(entry.last_used, UTC).strftime("%Y-%m-%d %H:%M")
        names = shortened(entry.names)
        rows.append((entry.key[:12], entry.kind, entry.stage, names, size(entry.size_bytes), used))
    lines = table(rows) if listing.entries else ["nothing is stored"]
    return "\n".join([*lines, "", f"{size(listing.size_bytes)} in {listing.store}"])


class _Disk:
    """How much the store takes, kept up to date while files go. A file with several names is counted once."""

    def __init__(self, store: Store) -> None:
        self._names: Counter[tuple[int, int]] = Counter()
        self.total = 0
        for folder in _COUNTED:
            for path in walk(store.path / folder):
                with suppress(FileNotFoundError):
                    state = path.lstat()
                    self._names[state.st_dev, state.st_ino] += 1
                    if self._names[state.st_dev, state.st_ino] == 1:
                        self.total += state.st_size

    def delete(self, path: Path) -> None:
        """Removes a file, or a folder with all that is in it."""
        for file in walk(path) if path.is_dir() else (path,):
            with suppress(FileNotFoundError):
                state = file.lstat()
                self._names[state.st_dev, state.st_ino] -= 1
                if self._names[state.st_dev, state.st_ino] == 0:
                    self.total -= state.st_size
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


class _Blobs:
    """How many results need each blob."""

    def __init__(self, store: Store, disk: _Disk) -> None:
        self._store = store
        self._disk = disk
        self._needed: Counter[str] = Counter()
        for key in store.stored_keys():
            record = store.read(key)
            if isinstance(record, Record):
                self._needed.update({file.sha256 for file in record.files})

    def drop_unreferenced(self) -> None:
        """Removes blobs of commits that were killed before their record was written."""
        for blob in _blobs(self._store):
            if blob.name not in self._needed:
                self._disk.delete(blob)

    def release(self, record: Record) -> None:
        """Removes the blobs that only this record needed."""
        for digest in {file.sha256 for file in record.files}:
            self._needed[digest] -= 1
            if self._needed[digest] <= 0:
                self._disk.delete(self._store.blob(digest))


def _existing(store: Path | None) -> Store:
    opened = Store(store if store is not None else default_store())
    opened.check_version()
    return opened


def _entries(store: Store) -> Iterator[Entry]:
    pinned, live = pinned_keys(store)
    for key in store.stored_keys():
        record = store.read(key)
        path = store.record_path(key)
        with suppress(OSError):
            used = path.stat().st_mtime
            if isinstance(record, Record):
                created = datetime.fromisoformat(record.created).timestamp()
                yield Entry("result", key, record.stage, record.names, record.size, created, used, key in pinned)
            else:
                yield Entry("result", key, "(damaged)", (), 0, used, used, key in pinned)
    for folder in _children(store.path / "work"):
        with suppress(FileNotFoundError):  # its attempt ended in the meantime
            yield _folder_entry("work", folder, is_held(Path(store.lock(folder.name).lock_file)))
    for area in (store.shared_data, store.shared_stages):
        for child in _children(area):
            with suppress(FileNotFoundError):
                yield _folder_entry("shared", child, live > 0)


def _folder_entry(kind: Literal["work", "shared"], path: Path, in_use: bool) -> Entry:
    files = [path, *walk(path)] if path.is_dir() else [path]
    states = [file.lstat() for file in files]
    used = max(state.st_mtime for state in states)
    created = min(state.st_mtime for state in states)
    total = sum(state.st_size for file, state in zip(files, states, strict=True) if not file.is_dir())
    return Entry(kind, path.name, path.parent.name if kind == "shared" else "", (), total, created, used, in_use)


def _remove(store: Store, entry: Entry, blobs: _Blobs, disk: _Disk) -> bool:
    """Removes an entry unless its key has been locked in the meantime. The store's exclusive lock is held."""
    if entry.kind == "shared":
        disk.delete(store.path / "shared" / entry.stage / entry.key)
        return True
    lock = store.lock(entry.key)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    try:
        if entry.kind == "work":
            disk.delete(store.work(entry.key))
            return True
        record = store.read(entry.key)
        disk.delete(store.record_path(entry.key))
        disk.delete(store.output(entry.key))
        if isinstance(record, Record):
            blobs.release(record)
        return True
    finally:
        lock.release()


def _drop_if_damaged(store: Store, key: str, wrong: set[str]) -> str | None:
    """Drops a result whose record or blobs are damaged or missing, and says what was wrong with it."""
    record = store.read(key)
    if isinstance(record, Damaged):
        store.drop(record)
        return f"{key[:12]}: {record.reason}"
    if record is None:
        return None
    bad = [file.path for file in record.files if file.sha256 in wrong or not store.blob(file.sha256).is_file()]
    if not bad:
        return None
    store.drop(Damaged(key, "its files are damaged"))
    return f"{key[:12]} ({record.stage}: {', '.join(record.names)}): damaged or missing: {', '.join(bad)}"


def _blobs(store: Store) -> Iterator[Path]:
    yield from (path for path in (store.path / "blobs").glob("??/*") if path.is_file())


def _children(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else ()
