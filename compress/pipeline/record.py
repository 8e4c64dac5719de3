"""What the store keeps of one execution of a stage, beside the files themselves."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from compress.pipeline.files import canonical_json, digest_of

SCHEMA = 1


class DamagedRecord(ValueError):
    """The text is not a record that was written whole."""


@dataclass(frozen=True)
class StoredFile:
    """A file of a result: where it lies in the result's folder, and the blob that it is."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Record:
    """One result. `variants` are the records of `serialize`; `provenance` is what the key was computed from.

    `seconds` is the wall time of the attempt that ended, `created` ISO 8601 in UTC.
    """

    key: str
    stage: str
    use: str
    created: str
    seconds: float
    variants: tuple[dict[str, Any], ...]
    files: tuple[StoredFile, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variant["name"] for variant in self.variants)

    @property
    def size(self) -> int:
        """Bytes of all files, shared ones included."""
        return sum(file.size for file in self.files)

    def to_json(self) -> str:
        content = {"schema": SCHEMA, **asdict(self)}
        content["sha256"] = digest_of(content)
        return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raises DamagedRecord when a byte is not as it was written, or another version wrote it."""
        try:
            content = json.loads(text)
            checksum = content.pop("sha256")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise DamagedRecord("its record is not the JSON that was written") from None
        if checksum != digest_of(content):
            raise DamagedRecord("its record was changed after it was written")
        if content.pop("schema") != SCHEMA:
            raise DamagedRecord("its record was written by another version")
        files = tuple(StoredFile(**file) for file in content.pop("files"))
        return cls(**{**content, "variants": tuple(content["variants"])}, files=files)


@dataclass(frozen=True)
class Failure:
    """The last failed attempt at a key. Kept for the user to read; never served."""

    key: str
    stage: str
    time: str
    error: str
    traceback: str

    def to_json(self) -> str:
        return canonical_json(asdict(self)) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Failure | None:
        """None for a text that is not a failure: nothing depends on one."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None
