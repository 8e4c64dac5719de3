"""`tar`: shards with members `split/class/file.jpg`, read by offset from the plain tar and never unpacked.

One pass over a shard finds the offset, the digest and the size in pixels of every image and decodes it once to know
that it can be; the result is kept in the cache folder until the shard changes.
"""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from compress.errors import DataError
from compress.recipe.types import InputFile, OneOrMany
from compress.tasks.image_classification.collection import ImageRecord, Loss
from compress.tasks.image_classification.decode import is_image_name, probe
from compress.tasks.image_classification.file_images import ByteRange, FileImages
from compress.tasks.image_classification.index_cache import (
    FileState,
    Indexed,
    index_path,
    load_index,
    now_ns,
    save_index,
    state_to_json,
)
from compress.tasks.image_classification.settings import ImageDataSettings
from compress.tasks.protocol import SplitName
from compress.tasks.splits import SPLIT_ALIASES

_BLOCK = 512
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}


class TarSettings(ImageDataSettings):
    """Members are `split/class/file` or `class/file`; other files are ignored."""

    source: Literal["tar"] = "tar"
    shards: OneOrMany[InputFile] = Field(description="tar files, not compressed")

    def open(self, cache: Path) -> FileImages:
        """Reads each shard once, or its index from `cache`. Raises DataError for a shard that is missing, compressed,
        or holds a member that another shard holds too."""
        shards = [(path, _indexed(path, cache)) for path in self.shards]
        records: list[ImageRecord] = []
        ranges: list[ByteRange] = []
        seen: dict[str, Path] = {}
        for path, shard in shards:
            for image in shard.images:
                if (other := seen.setdefault(image.record.name, path)) is not path:
                    raise DataError(f"{image.record.name} is in {other} and in {path}; members must be unique")
                records.append(image.record)
                ranges.append(ByteRange(path, image.offset, image.size))
        return FileImages(records, ranges, keep_open=True, lost=_losses(shards))


@dataclass(frozen=True)
class _Shard:
    """What one shard holds. `lost_bytes` could not be read, for `reason`."""

    images: tuple[Indexed, ...]
    reason: str = ""
    lost_bytes: int = 0


def _indexed(path: Path, cache: Path) -> _Shard:
    if not path.is_file():
        from compress.recipe.nearest import suggestion

        siblings = [p.name for p in path.parent.glob("*.tar")] if path.parent.is_dir() else []
        raise DataError(f"shard {path} does not exist{suggestion(path.name, siblings)}")
    where, state, started = index_path(cache, "tar", path), FileState.of(path), now_ns()
    known = state_to_json(state, started)
    stored = load_index(where)
    if known is not None and stored.get("state") == known:
        return _from_json(stored["shard"])
    shard = _read_shard(path, state.size)
    if known is not None and FileState.of(path) == state:
        save_index(where, {"state": known, "shard": _to_json(shard)})
    return shard


def _read_shard(path: Path, size: int) -> _Shard:
    with path.open("rb") as file:
        if kind := _COMPRESSED.get(file.read(2)):
            raise DataError(f"shard {path} is compressed ({kind}); members are read by offset: decompress it once")
        file.seek(0)
        images: list[Indexed] = []
        end = 0
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                while (member := archive.next()) is not None:
                    archive.members = []  # type: ignore[attr-defined]  # tarfile would keep every header in memory
                    image = _read_member(archive, member)
                    if image is not None:
                        images.append(image)
                    end = member.offset_data + -(-member.size // _BLOCK) * _BLOCK
        except (tarfile.TarError, EOFError, OSError) as error:
            return _Shard(tuple(images), f"damaged after {len(images)} images: {error}", size - end)
        file.seek(end)
        # tarfile ends without a word at a damaged header; a whole archive ends with blocks of zeros.
        if (block := file.read(_BLOCK)) != bytes(_BLOCK):
            what = "ends without the end-of-archive mark" if not block else "damaged header"
            return _Shard(tuple(images), f"{what} after {len(images)} images", size - end)
    return _Shard(tuple(images))


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Indexed | None:
    """None for members that are no images. Raises tarfile.ReadError when the shard ends before the member does."""
    if not member.isfile() or not is_image_name(member.name):
        return None
    stream = archive.extractfile(member)
    data = stream.read() if stream is not None else b""
    if len(data) != member.size:
        raise tarfile.ReadError("unexpected end of data")
    record = _record(member.name, data)
    if member.issparse():
        record = replace(record, error="sparse member")
    return Indexed(record, member.offset_data, member.size)


def _record(member_name: str, data: bytes) -> ImageRecord:
    name = str(PurePosixPath(member_name))
    parts = PurePosixPath(name).parts
    digest = hashlib.sha256(data).hexdigest()
    split: SplitName | None = SPLIT_ALIASES.get(parts[0]) if len(parts) >= 3 else None
    if len(parts) < 2 or (len(parts) >= 3 and split is None):
        names = ", ".join(sorted(set(SPLIT_ALIASES.values())))
        return ImageRecord(name, "", None, digest, 0, 0, f"expected split/class/file with a split of {names}")
    class_name = parts[1] if split else parts[0]
    try:
        height, width = probe(data)
    except ValueError as error:
        return ImageRecord(name, class_name, split, digest, 0, 0, str(error))
    return ImageRecord(name, class_name, split, digest, height, width)


def _losses(shards: list[tuple[Path, _Shard]]) -> dict[str, Loss]:
    """Lost bytes to images, by the mean of what could be read; at least one."""
    images = [image for _, shard in shards for image in shard.images]
    stride = sum(_BLOCK + -(-image.size // _BLOCK) * _BLOCK for image in images) / len(images) if images else 1
    losses = {}
    for path, shard in shards:
        if shard.reason:
            splits = {image.record.split for image in shard.images}
            split = splits.pop() if len(splits) == 1 else None
            losses[path.name] = Loss(shard.reason, max(1, round(shard.lost_bytes / stride)), 1 / len(shards), split)
    return losses


def _to_json(shard: _Shard) -> dict[str, Any]:
    rows = [
        [r.name, r.class_name, r.split, r.digest, r.height, r.width, r.error, image.offset, image.size]
        for image in shard.images
        for r in [image.record]
    ]
    return {"images": rows, "reason": shard.reason, "lost_bytes": shard.lost_bytes}


def _from_json(stored: dict[str, Any]) -> _Shard:
    images = tuple(Indexed(ImageRecord(*row[:7]), row[7], row[8]) for row in stored["images"])
    return _Shard(images, stored["reason"], stored["lost_bytes"])
