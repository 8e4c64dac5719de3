"""What a live run has taken from the store, so that nothing of it is collected while the run goes on."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from compress.pipeline.files import write_atomically
from compress.pipeline.record import Record
from compress.pipeline.store import Damaged, Served, Store


class Session:
    """Keys that a run uses. They are pinned from before they are read until the run ends or its process dies."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self._file = store.path / "pins" / f"{name}.json"
        self._keys: set[str] = set()

    def pin(self, key: str) -> None:
        """Keeps a result, stored already or still to come, from being collected."""
        if key in self._keys:
            return
        self._keys.add(key)
        with self.store.exclusive():
            write_atomically(self._file, json.dumps(sorted(self._keys)))

    def find(self, key: str) -> Served | Damaged | None:
        """The result of a key, checked by digest and pinned; None when it is not stored."""
        self.pin(key)
        record = self.store.read(key)
        if not isinstance(record, Record):
            return record
        damaged = self.store.check(record)
        return damaged if damaged is not None else self.store.serve(record)


@contextmanager
def session(store: Store) -> Iterator[Session]:
    """A session for the length of a run."""
    name = f"{os.getpid()}-{secrets.token_hex(8)}"
    lock = FileLock(store.path / "pins" / f"{name}.lock")
    with store.exclusive():  # a lock file without a holder would be taken for a dead run's
        lock.acquire()
    opened = Session(store, name)
    try:
        yield opened
    finally:
        with store.exclusive():
            _remove(opened._file, Path(lock.lock_file))
            lock.release()


def pinned_keys(store: Store) -> tuple[frozenset[str], int]:
    """Keys that live runs use, and the number of live runs."""
    keys: set[str] = set()
    live = 0
    for path in (store.path / "pins").glob("*.lock"):
        if is_held(path):
            live += 1
            with suppress(OSError, ValueError):
                keys.update(json.loads(path.with_suffix(".json").read_text()))
    return frozenset(keys), live


def forget_dead_runs(store: Store) -> None:
    """Removes the pins of runs whose process died. The caller holds `store.exclusive()`."""
    for path in (store.path / "pins").glob("*.lock"):
        if not is_held(path):
            _remove(path.with_suffix(".json"), path)


def is_held(path: Path) -> bool:
    """Whether a live process holds a lock file. Makes none."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
