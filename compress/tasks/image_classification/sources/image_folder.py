"""`image-folder`: `root/class/file.jpg` or `root/split/class/file.jpg`, or one folder for each split.

Every file is read and decoded once; what was found is kept in the cache folder, and a file is read again only when it
has changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.errors import DataError
from compress.recipe.types import InputFolder
from compress.tasks.image_classification.collection import ImageRecord
from compress.tasks.image_classification.decode import is_image_name, probe
from compress.tasks.image_classification.file_images import ByteRange, FileImages
from compress.tasks.image_classification.index_cache import (
    FileState,
    index_path,
    load_index,
    now_ns,
    save_index,
    state_to_json,
)
from compress.tasks.image_classification.settings import ImageDataSettings
from compress.tasks.protocol import SplitName
from compress.tasks.splits import SPLIT_ALIASES, SPLITS


class SplitFolders(BaseModel):
    """Folders of class folders. Splits without one are cut from train."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    train: InputFolder = Field(description="class folders of the train split")
    validation: InputFolder | None = Field(
        None, description="class folders of the validation split; default: cut from train"
    )
    calibration: InputFolder | None = Field(
        None, description="class folders of the calibration split; default: cut from train"
    )
    test: InputFolder | None = Field(None, description="class folders of the test split; default: cut from train")


class ImageFolderSettings(ImageDataSettings):
    """Either `root` or `folders`. Files below a class folder count, at any depth."""

    source: Literal["image-folder"] = "image-folder"
    root: InputFolder | None = Field(None, description="folder of class folders, or of split folders that hold them")
    folders: SplitFolders | None = Field(None, description="one folder of class folders for each split")

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if (self.root is None) == (self.folders is None):
            raise ValueError("give either `root` or `folders`")
        return self

    def open(self, cache: Path) -> FileImages:
        """Reads files that are not in the index in `cache`. Raises DataError for a missing folder, or one without
        class folders."""
        records: list[ImageRecord] = []
        ranges: list[ByteRange] = []
        for folder, split in self._folders():
            found = _indexed(folder, cache)
            if not found:
                raise DataError(f"no images in {folder}; expected {folder.name}/CLASS/FILE.jpg")
            for relative, size, (digest, height, width, error) in found:
                name = f"{split}/{relative}" if split else relative
                class_name = relative.partition("/")[0]
                records.append(ImageRecord(name, class_name, split, digest, height, width, error))
                ranges.append(ByteRange(folder / relative, 0, size))
        return FileImages(records, ranges, keep_open=False)

    def _folders(self) -> Iterator[tuple[Path, SplitName | None]]:
        if self.folders is not None:
            for split in SPLITS:
                if (folder := getattr(self.folders, split)) is not None:
                    yield folder, split
            return
        assert self.root is not None
        if not self.root.is_dir():
            raise DataError(f"folder {self.root} does not exist")
        inside = sorted(entry for entry in self.root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        if not inside:
            raise DataError(f"no class folders in {self.root}; expected CLASS/FILE.jpg or SPLIT/CLASS/FILE.jpg")
        if not any(SPLIT_ALIASES.get(folder.name) == "train" for folder in inside):
            yield self.root, None
            return
        for folder in inside:
            if folder.name not in SPLIT_ALIASES:
                raise DataError(f"folder {folder} stands beside `train` but is no split: {', '.join(SPLIT_ALIASES)}")
            yield folder, SPLIT_ALIASES[folder.name]


def _indexed(folder: Path, cache: Path) -> list[tuple[str, int, list[Any]]]:
    """Relative path, bytes, and [digest, height, width, error] of each image, in the order of the paths."""
    if not folder.is_dir():
        raise DataError(f"folder {folder} does not exist")
    where = index_path(cache, "folder", folder)
    stored: dict[str, Any] = load_index(where).get("files", {})
    fresh: dict[str, Any] = {}
    found = []
    for relative in _image_paths(folder):
        state, started = FileState.of(folder / relative), now_ns()
        known = state_to_json(state, started)
        row = stored.get(relative)
        facts = row[1] if row and known is not None and row[0] == known else _read(folder / relative)
        if known is not None:
            fresh[relative] = [known, facts]
        found.append((relative, state.size, facts))
    if fresh != stored:
        save_index(where, {"files": fresh})
    return found


def _image_paths(folder: Path) -> list[str]:
    paths = []
    for current, folders, files in os.walk(folder, followlinks=True):
        here = os.path.realpath(current)
        # A link to a folder above would be followed for ever.
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and not f"{here}/".startswith(f"{os.path.realpath(Path(current, name))}/")
        ]
        relative = Path(current).relative_to(folder)
        if relative.parts:  # images beside the class folders have no class
            paths += [(relative / file).as_posix() for file in files if is_image_name(file)]
    return sorted(paths)


def _read(path: Path) -> list[Any]:
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    try:
        return [digest, *probe(data), ""]
    except ValueError as error:
        return [digest, 0, 0, str(error)]
