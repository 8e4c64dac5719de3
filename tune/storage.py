"""Where studies are kept: a journal file, SQLite, PostgreSQL, or Optuna's gRPC proxy, each opened by its URL.

A path, or `journal:PATH`, is a journal file: right for any number of processes on one machine. `sqlite:///PATH` works
too and is slower. `postgresql://...` and `grpc://host:port` (a proxy that `python -m tune proxy` starts) serve many
machines. A storage that does not answer is asked again for a while before StorageUnreachable is raised.
"""

from __future__ import annotations

import importlib
import re
import sqlite3
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edge_runtime.nearest import suggestion
from tune.errors import MissingPackage, StorageUnreachable, UsageError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

Kind = Literal["journal", "rdb", "grpc"]
PATIENCE = 30.0
"""Seconds for which a storage that does not answer is asked again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_RDB = ("sqlite", "postgresql", "mysql")
_SCHEMES = ("journal", *_RDB, "grpc")
_BUSY_SECONDS = 60


@dataclass(frozen=True)
class Place:
    """A storage's URL, taken apart. `path` is the file of a journal or of SQLite, None for a server."""

    url: str
    kind: Kind
    path: Path | None

    def __str__(self) -> str:
        """The URL without a password."""
        return re.sub(r"(://[^:/@]+):[^@/]*@", r"\1:***@", self.url)


def parse_url(url: str | Path) -> Place:
    """Raises UsageError for a URL that names no kind of storage."""
    text = str(url)
    match = _SCHEME.fullmatch(text)
    if not text:
        raise UsageError([f"storage: expected the path of a journal file or a URL ({', '.join(_SCHEMES)})"])
    if match is None:
        return Place(text, "journal", Path(text).expanduser())
    scheme, rest = match.group(1), match.group(2)
    family = scheme.partition("+")[0].lower()
    if family not in _SCHEMES:
        raise UsageError([f"storage: unknown kind of storage '{scheme}:'{suggestion(scheme, _SCHEMES)}"])
    if family == "journal":
        return Place(text, "journal", Path(rest.removeprefix("//")).expanduser())
    if not rest.startswith("//"):
        raise UsageError([f"storage: expected {family}:// in front, got '{text}'"])
    if family == "grpc":
        _host_and_port(text)
        return Place(text, "grpc", None)
    return Place(text, "rdb", Path(rest[3:]) if family == "sqlite" and rest.startswith("///") and rest[3:] else None)


def open_storage(url: str | Path, *, read_only: bool = False, patience: float = PATIENCE) -> BaseStorage:
    """A storage that asks again for `patience` seconds before it raises StorageUnreachable.

    With `read_only` every write raises, no table or file is made, and SQLite is opened so that it cannot lock others.
    Raises UsageError for a wrong URL or a missing file, MissingPackage, and StorageUnreachable.
    """
    place = parse_url(url)
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise MissingPackage(f"package '{error.name}' is missing; install edgepress[tune]") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if read_only and place.path is not None and not place.path.is_file():
        raise UsageError([f"storage: there is no study at {place.path}{_beside(place.path)}"])
    open_ = {"journal": _journal, "rdb": _rdb, "grpc": _grpc}[place.kind]
    inner = asked_again(lambda: open_(place, read_only), place, patience)
    from tune.proxies import Patient, ReadOnly

    opened: BaseStorage = Patient(inner, place, patience)  # type: ignore[abstract]
    return ReadOnly(opened) if read_only else opened  # type: ignore[abstract]


def asked_again(call: Callable[[], Any], place: Place, patience: float) -> Any:
    """What `call` gives, tried again with growing pauses while the storage does not answer. Raises

    StorageUnreachable after `patience` seconds. Other errors pass at once.
    """
    deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
    while True:
        try:
            return call()
        except Exception as error:
            if not is_unreachable(error):
                raise
            if time.monotonic() + pause > deadline or isinstance(error, PermissionError):
                raise StorageUnreachable(
                    f"the storage {place} does not answer: {_cause(error)}; what it has recorded is safe, and the same "
                    "command goes on from there once it answers"
                ) from error
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def is_unreachable(error: BaseException) -> bool:
    """Whether an error says that the storage was not reached, as opposed to what it answered."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, StorageUnreachable | FileExistsError | IsADirectoryError):
            return False
        if isinstance(seen, OSError):
            return True
        name, module = type(seen).__name__, type(seen).__module__.partition(".")[0]
        if module == "sqlalchemy" and name in ("OperationalError", "InterfaceError", "TimeoutError"):
            return True
        if module == "grpc" and "UNAVAILABLE" in repr(getattr(seen, "code", lambda: "")()):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _journal(place: Place, read_only: bool) -> Any:
    from optuna.storages import JournalStorage

    from tune.journal import Journal

    path = place.path
    assert path is not None
    if path.is_dir():
        raise UsageError([f"storage: {path} is a folder; name a file in it, such as {path / 'study.journal'}"])
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(Journal(path))


def _rdb(place: Place, read_only: bool) -> Any:
    try:
        storages: Any = importlib.import_module("optuna.storages")
        if place.path is None:
            return storages.get_storage(storages.RDBStorage(place.url, engine_kwargs={"pool_pre_ping": True}))
        options = {"connect_args": {"timeout": _BUSY_SECONDS}}
        if read_only:
            url = f"sqlite:///file:{place.path}?mode=ro&uri=true"
            return storages.RDBStorage(url, engine_kwargs=options, skip_table_creation=True)
        place.path.parent.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(place.path, timeout=_BUSY_SECONDS) as connection:
            # Kept in the file: from now on readers and the writer do not wait for each other.
            connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
        return storages.get_storage(storages.RDBStorage(place.url, engine_kwargs=options))
    except ImportError as error:
        raise MissingPackage(f"{place} needs a package that is missing ({error}); install edgepress[tune]") from error
    except sqlite3.DatabaseError as error:
        raise UsageError([f"storage: {place.path} cannot be opened by SQLite: {error}"]) from error


def _grpc(place: Place, read_only: bool) -> Any:
    try:
        import grpc
        from optuna.storages import GrpcStorageProxy
    except ImportError as error:
        raise MissingPackage(f"{place} needs a package that is missing ({error}); install edgepress[tune]") from error
    host, port = _host_and_port(place.url)
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=2)
        except grpc.FutureTimeoutError:
            raise ConnectionError(f"nothing answers at {host}:{port}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ExperimentalWarning
        return GrpcStorageProxy(host=host, port=port)


def _host_and_port(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rstrip("/").rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError([f"storage: expected grpc://host:port, got '{url}'"])
    return host, int(port)


def _cause(error: BaseException) -> str:
    """The innermost message, which names what refused; the first line of it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _beside(path: Path) -> str:
    try:
        found = [str(file) for file in path.parent.iterdir() if file.suffix in (".journal", ".log", ".db", ".sqlite3")]
    except OSError:
        return ""
    return suggestion(str(path), found)
