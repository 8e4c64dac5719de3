"""Writing without halves: every file appears complete or not at all, also across a kill or a full disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from compress.errors import EnvironmentProblem

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "os error 28", "[Errno 28]", "os error 122")


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, as lower-case hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(folder: Path) -> str:
    """SHA-256 over the relative paths and contents of all files under a folder; names of folders alone don't count."""
    digest = hashlib.sha256()
    for path in walk(folder):
        content = sha256(path) if path.is_file() else f"link to {os.readlink(path)}" if path.is_symlink() else "special"
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def walk(folder: Path) -> list[Path]:
    """Every file below a folder (symbolic links included, not followed), sorted by path.

    What disappears while it walks is left out: other processes may be at work in a store.
    """
    found = []
    for parent, folders, files in os.walk(folder):
        found += [Path(parent, name) for name in files]
        found += [link for name in folders if (link := Path(parent, name)).is_symlink()]
    return sorted(found)


def canonical_json(value: Any) -> str:
    """JSON that equal values share: sorted keys, no white space. NaN and infinities as Python writes and reads them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON-able value's canonical form."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def write_atomically(path: Path, content: bytes | str) -> None:
    """All of `content` under `path`, or what was there before. The parent folder must exist."""
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would lock other users out of a shared store
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Waits until the content of a file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Waits until names made or replaced in a folder are on the disk; nothing where folders cannot be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.EACCES):
            raise
    finally:
        os.close(handle)


def link_or_copy(source: Path, target: Path) -> None:
    """A second name for the same content: a hard link, or a copy where the file system has no links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        shutil.copyfile(source, target)


def disk_is_full(error: BaseException | None) -> bool:
    """Whether an exception, or one that it came from, says that there is no space left.

    Libraries in other languages hide the number of the error in a text, hence the look at the message; converters
    name the kind of their failure.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if getattr(error, "kind", None) == "disk-full" or any(text in str(error) for text in _FULL_TEXTS):
            return True
        error = error.__cause__ or error.__context__
    return False


def full_disk_problem(doing: str, folder: Path) -> EnvironmentProblem:
    """The message for a full disk: what was being done, where, how much is free, and what helps."""
    try:
        free = f"{shutil.disk_usage(folder).free / 2**20:.0f} MiB free"
    except OSError:
        free = "free space unknown"
    return EnvironmentProblem(
        f"no space left on device while {doing} ({folder}: {free}). Nothing was stored half-written. "
        "Make room, for example with `edgepress cache gc --max-size 1GiB`, and run the same command again; "
        "it continues where it stopped"
    )
