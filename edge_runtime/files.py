"""Writing files so that a reader sees the old content or the new one, never a half."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Writes to a temporary file in the same folder, syncs it, and moves it over `path`.

    Raises OSError when the folder does not exist or the disk is full; `path` is then as it was.
    """
    import tempfile  # loads compression and hashing; readers need neither

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
