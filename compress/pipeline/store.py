"""The content-addressed store: what stages gave, found again by key and checked by digest whenever it is used.

    blobs/ab/<sha256>     files, read-only, named by their content
    results/<key>.json    one record a result: variants, files by relative path and blob, provenance
    outputs/<key>/        the files of a result as the stage left them: hard links into blobs
    failures/<key>.json   the last failed attempt; never served
    data/<key>.json       which data was seen under which settings, for plans
    work/<key>/state      what a killed attempt left for the next one; outputs of running attempts lie beside it
    shared/               by-products keyed by their content: prepared data, outputs of teachers
    locks/, pins/         one lock a key; one pin file a live run, naming what must not be collected
    history.jsonl         durations and sizes of all that was computed, for predictions

Every write is atomic, so that a kill at any moment leaves a readable store.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from compress.errors import EnvironmentProblem, StageError
from compress.pipeline.files import link_or_copy, sha256, sync_file, sync_folder, walk, write_atomically
from compress.pipeline.record import DamagedRecord, Failure, Record, StoredFile

SCHEMA = 1
VARIABLE = "EDGEPRESS_STORE"
DEFAULT = Path(".edgepress")
_FOLDERS = (
    *("blobs", "results", "outputs", "failures", "data", "work"),
    *("shared/data", "shared/stages", "locks", "pins", "trash"),
)
_POLL = 0.1


def default_store() -> Path:
    """$EDGEPRESS_STORE, or `.edgepress/` in the working directory; absolute."""
    return Path(os.environ.get(VARIABLE) or DEFAULT).expanduser().absolute()


@dataclass(frozen=True)
class Served:
    """A result that is in the store and was checked: its record, and the folder with its files."""

    record: Record
    folder: Path


@dataclass(frozen=True)
class Damaged:
    """A result that is in the store and cannot be used. `reason` completes "the stored result is damaged: ..."."""

    key: str
    reason: str
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """The folders of one execution. `state` outlives a kill; `output` is new, empty, and this attempt's alone.

    A child process that outlives its killed parent keeps writing into its own attempt's folder, which nobody reads.
    """

    state: Path
    output: Path
    resumed: bool


class Store:
    """Paths and rules of one store. Making one touches nothing; `open` makes the folders."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @classmethod
    def open(cls, path: Path) -> Store:
        """Makes the folders that are missing. Raises EnvironmentProblem when the store cannot be used."""
        store = cls(path)
        try:
            for name in _FOLDERS:
                (store.path / name).mkdir(parents=True, exist_ok=True)
            marker = store.path / "store.json"
            if not marker.exists():
                write_atomically(marker, json.dumps({"schema": SCHEMA}) + "\n")
        except OSError as error:
            raise EnvironmentProblem(
                f"the store {store.path} cannot be used: {error.strerror or error}; set {VARIABLE} to a folder that "
                "can be written"
            ) from error
        store.check_version()
        return store

    def check_version(self) -> None:
        """Raises EnvironmentProblem when another version of the store lies here."""
        try:
            schema = json.loads((self.path / "store.json").read_text())["schema"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EnvironmentProblem(f"the store {self.path} cannot be read: {error}") from error
        if schema != SCHEMA:
            raise EnvironmentProblem(
                f"the store {self.path} has layout {schema}, this version uses {SCHEMA}; "
                f"set {VARIABLE} to another folder"
            )

    # Where things lie.

    def blob(self, digest: str) -> Path:
        return self.path / "blobs" / digest[:2] / digest

    def record_path(self, key: str) -> Path:
        return self.path / "results" / f"{key}.json"

    def output(self, key: str) -> Path:
        return self.path / "outputs" / key

    def work(self, key: str) -> Path:
        return self.path / "work" / key

    def failure_path(self, key: str) -> Path:
        return self.path / "failures" / f"{key}.json"

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def shared_data(self) -> Path:
        return self.path / "shared" / "data"

    @property
    def shared_stages(self) -> Path:
        return self.path / "shared" / "stages"

    def lock(self, name: str) -> FileLock:
        """The lock of a key; released by the system when its holder dies."""
        return FileLock(self.path / "locks" / f"{name}.lock")

    # Reading.

    def stored_keys(self) -> tuple[str, ...]:
        """Keys of all results, damaged ones included."""
        return tuple(sorted(path.stem for path in (self.path / "results").glob("*.json")))

    def read(self, key: str) -> Record | Damaged | None:
        """The record of a result, its files unchecked."""
        try:
            record = Record.from_json(self.record_path(key).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (DamagedRecord, UnicodeDecodeError) as error:
            reason = str(error) if isinstance(error, DamagedRecord) else "its record is not text"
            return Damaged(key, reason)
        return record if record.key == key else Damaged(key, "its record belongs to another key")

    def peek(self, key: str) -> Record | None:
        """The record of a result whose files are all there, by name and size. Touches nothing, checks no content."""
        record = self.read(key)
        if not isinstance(record, Record):
            return None
        return record if all(_size(self.blob(file.sha256)) == file.size for file in record.files) else None

    def check(self, record: Record) -> Damaged | None:
        """Reads every file of a result and compares its digest."""
        wrong = [file for file in record.files if not self._intact(self.blob(file.sha256), file.sha256)]
        if not wrong:
            return None
        names = ", ".join(file.path for file in wrong)
        reason = f"{names} {'has' if len(wrong) == 1 else 'have'} not the content that was stored"
        return Damaged(record.key, reason, tuple(file.sha256 for file in wrong))

    def failure(self, key: str) -> Failure | None:
        """The last failed attempt at a key, if the last attempt failed."""
        with suppress(OSError):
            return Failure.from_json(self.failure_path(key).read_text(encoding="utf-8"))
        return None

    def known_data(self, key: str) -> str | None:
        """The digest that data had when it was last prepared from these settings and files."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads((self.path / "data" / f"{key}.json").read_text())["digest"])
        return None

    def remember_data(self, key: str, digest: str) -> None:
        """Notes the digest of prepared data, so that a plan can look up results without preparing it."""
        if self.known_data(key) != digest:
            write_atomically(self.path / "data" / f"{key}.json", json.dumps({"digest": digest}) + "\n")

    # Locks.

    @contextmanager
    def locked(self, name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Holds the lock of a key. When another process has it, calls `on_wait` once and waits."""
        lock = self.lock(name)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait()
            lock.acquire(poll_interval=_POLL)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The short lock under which names appear and disappear, so that collecting and storing never overlap."""
        with self.locked("store"):
            yield

    # Writing. The caller holds the key's lock.

    def attempt(self, key: str) -> Attempt:
        """Folders for an execution: the state that an earlier attempt left, and a new, empty output folder."""
        work = self.work(key)
        state = work / "state"
        resumed = state.is_dir() and any(state.iterdir())
        state.mkdir(parents=True, exist_ok=True)
        for old in work.glob("output-*"):
            self._discard(old)
        return Attempt(state, Path(tempfile.mkdtemp(dir=work, prefix="output-")), resumed)

    def abandon(self, attempt: Attempt) -> None:
        """Removes what a failed execution put out; its state stays for the next attempt."""
        self._discard(attempt.output)

    def commit(self, record: Record, output: Path) -> Served:
        """Moves the files of an execution into the store; the result exists from the moment its record does.

        `record.files` is filled in here. Raises StageError for output that is not a regular file.
        """
        files = []
        for path in walk(output):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise StageError(f"the stage left {path.relative_to(output)}, which is not a regular file")
            path.chmod(0o444)
            sync_file(path)
            files.append(StoredFile(path.relative_to(output).as_posix(), sha256(path), path.stat().st_size))
        record = replace(record, files=tuple(files))
        with self.exclusive():
            for file in files:
                self._add_blob(output / file.path, file.sha256)
            folder = self._lay_out(record)
            write_atomically(self.record_path(record.key), record.to_json())
        self.failure_path(record.key).unlink(missing_ok=True)
        self._discard(self.work(record.key))
        return Served(record, folder)

    def serve(self, record: Record) -> Served:
        """The files of a checked result, laid out again where they are missing; notes that it was used."""
        with self.exclusive():
            folder = self._lay_out(record)
            with suppress(OSError):  # a store that can only be read has no least recently used entry
                os.utime(self.record_path(record.key))
        self._discard(self.work(record.key))  # left by a kill just after the record was written
        return Served(record, folder)

    def drop(self, damaged: Damaged) -> None:
        """Forgets a damaged result and its damaged files."""
        with self.exclusive():
            self.record_path(damaged.key).unlink(missing_ok=True)
            for digest in damaged.blobs:
                self.blob(digest).unlink(missing_ok=True)
            self._discard(self.output(damaged.key))

    def fail(self, failure: Failure) -> None:
        """Records a failed attempt."""
        write_atomically(self.failure_path(failure.key), failure.to_json())

    def _add_blob(self, path: Path, digest: str) -> None:
        blob = self.blob(digest)
        if self._intact(blob, digest):
            path.unlink()
            return
        blob.parent.mkdir(exist_ok=True)
        os.replace(path, blob)
        sync_folder(blob.parent)

    def _lay_out(self, record: Record) -> Path:
        """`outputs/<key>/`, built aside and renamed, unless every file of it is the blob already."""
        folder = self.output(record.key)
        if folder.is_dir() and all(self._same(folder / file.path, file.sha256) for file in record.files):
            return folder
        aside = Path(tempfile.mkdtemp(dir=self.path / "trash"))
        aside.chmod(0o755)
        for file in record.files:
            link_or_copy(self.blob(file.sha256), aside / file.path)
        self._discard(folder)
        os.rename(aside, folder)
        sync_folder(folder.parent)
        return folder

    def _same(self, path: Path, digest: str) -> bool:
        """Whether a laid-out file is the blob: the same file by another name, or a copy with its content."""
        try:
            return os.path.samefile(path, self.blob(digest)) or self._intact(path, digest)
        except OSError:
            return False

    @staticmethod
    def _intact(path: Path, digest: str) -> bool:
        try:
            return sha256(path) == digest
        except OSError:
            return False

    def _discard(self, path: Path) -> None:
        """Takes a file or folder out of the way in one step, then removes it; a kill in between leaves only trash."""
        if not path.exists():
            return
        try:
            aside = Path(tempfile.mkdtemp(dir=self.path / "trash"))
        except OSError:  # a full disk has no room for a folder either
            shutil.rmtree(path, ignore_errors=True)
            return
        with suppress(FileNotFoundError):
            os.rename(path, aside / path.name)
        shutil.rmtree(aside, ignore_errors=True)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
