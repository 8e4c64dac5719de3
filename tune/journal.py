"""The journal file: one line for everything that happens in a study, and the lock under which lines are written.

Optuna's own lock is a file that a killed process leaves behind, so that everybody waits. This one is held by the kernel
for the process, and is released when the process ends, however it ends. A process that is killed while it writes may
leave a part of a line; whoever locks next takes it away, since nobody else can be writing then. Without that, the next
line would be appended to the part, and the journal could never be read again.

Optuna's own file waits for the disk after every line. This one waits where Optuna's storages promise that something
lasts: when a study is made and when a trial ends. All lines before are on the disk then, too. A killed process loses
nothing either way; a power failure loses what trials reported that had not ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock

_BLOCK = 65536
_CREATE_STUDY, _SET_TRIAL_STATE = 0, 6
_ENDED = (1, 2, 3)


class Journal(JournalFileBackend):
    """Optuna's journal file with this module's lock and waits."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, KernelLock(path)
        super().__init__(str(path), lock_obj=self.lock)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends entries, one line each, under the lock. Raises OSError."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self.lock.acquire()
        try:
            with self.path.open("ab") as file:
                file.write(text.encode())
                file.flush()
                if any(map(_lasts, logs)):
                    os.fsync(file.fileno())
        finally:
            self.lock.release()


def _lasts(log: dict[str, Any]) -> bool:
    """Whether an entry has to be on the disk before the next thing happens."""
    code = log["op_code"]
    return code == _CREATE_STUDY or (code == _SET_TRIAL_STATE and log["state"] in _ENDED)


class KernelLock(BaseJournalFileLock):
    """`acquire` and `release`, as a journal backend calls them. One process may use it from many threads."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._threads = threading.Lock()  # flock tells processes apart, and open files, but not threads
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Waits for the lock. Raises OSError when the journal cannot be opened."""
        self._threads.acquire()
        try:
            handle = os.open(self._journal, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                _cut_partial_line(handle)
            except BaseException:
                os.close(handle)
                raise
            self._handle = handle
        except BaseException:
            self._threads.release()
            raise
        return True

    def release(self) -> None:
        """Closing the file releases the lock."""
        handle, self._handle = self._handle, None
        try:
            if handle is not None:
                os.close(handle)
        finally:
            self._threads.release()


def _cut_partial_line(handle: int) -> None:
    """Ends the file behind its last line break. The caller holds the lock."""
    size = os.fstat(handle).st_size
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
