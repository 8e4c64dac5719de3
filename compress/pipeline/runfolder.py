"""The folder of one run. It is made exclusively: no two runs ever share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from compress.errors import EnvironmentProblem, RecipeError
from compress.models.variant import FileVariant, Variant
from compress.pipeline.files import link_or_copy, walk, write_atomically
from compress.recipe.schema import Recipe

LOCK_FILE = ".running"


@contextmanager
def run_folder(recipe: Recipe, runs: Path, directory: Path | None) -> Iterator[Path]:
    """Makes and holds the folder of a run: `directory`, or a new `runs/<name>/<UTC time>/`.

    Raises RecipeError when `directory` holds a run already or is in use, EnvironmentProblem when it cannot be made.
    """
    try:
        folder = _claim(directory.absolute()) if directory is not None else _make((runs / recipe.name).absolute())
    except OSError as error:
        place = directory if directory is not None else runs
        raise EnvironmentProblem(f"the run folder cannot be made in {place}: {error.strerror or error}") from error
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise _in_use(folder) from None
    try:
        if directory is not None:
            _refuse_old_run(folder)
        yield folder
    finally:
        (folder / LOCK_FILE).unlink(missing_ok=True)
        lock.release()


def write_recipe(recipe: Recipe, folder: Path) -> None:
    """`recipe.yaml` as run, every default and override in place, and `recipe.original.yaml` as written."""
    head = f"# {recipe.path.name} as run, with defaults, overrides and variables. As written: recipe.original.yaml\n"
    content = {key: value for key, value in recipe.canonical.items() if value is not None}
    content["stages"] = [_as_written(stage) for stage in content["stages"]]
    write_atomically(folder / "recipe.yaml", head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    write_atomically(folder / "recipe.original.yaml", recipe.text)


def link_variant(variant: Variant, folder: Path) -> str:
    """Links a variant's files into `variants/<name>/` of a run folder. Returns where, relative to the folder."""
    target = folder / "variants" / variant.name
    if isinstance(variant, FileVariant):
        beside = sorted(variant.path.parent.glob(f"{_escaped(variant.path.stem)}.*"))
        for path in beside:
            _link(path, target / path.name)
        return (target / variant.path.name).relative_to(folder).as_posix()
    for path in walk(variant.directory):
        _link(path, target / path.relative_to(variant.directory))
    return target.relative_to(folder).as_posix()


def _as_written(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Without an empty `from` and `as`, which a recipe leaves out instead."""
    return {key: value for key, value in stage.items() if key not in ("from", "as") or value}


def _link(source: Path, target: Path) -> None:
    if not target.exists():
        link_or_copy(source, target)


def _escaped(stem: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in stem)


def _make(parent: Path) -> Path:
    """A new folder named by the time; a second run within the same second gets a number behind it."""
    parent.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    for number in count(1):
        folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")


def _claim(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise RecipeError([f"the run folder {folder} is a file; name a folder that does not exist yet"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _refuse_old_run(folder: Path) -> None:
    held = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE)
    if held:
        what = "already holds a run" if "events.jsonl" in held else f"is not empty (it holds {held[0]})"
        raise RecipeError([f"the run folder {folder} {what}; name one that is empty or does not exist yet"])


def _in_use(folder: Path) -> RecipeError:
    return RecipeError([f"the run folder {folder} is in use by another run; wait for it, or name another folder"])
