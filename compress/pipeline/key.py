"""The key of an execution: SHA-256 over everything that its result depends on.

In the key: settings with their defaults, contents of the files that they name, parents and their contents, the data's
manifest, source code of the stage, the task and user code (also what built the parents) with all that they import,
versions of packages, seed, target; for measuring stages the processor and the engines. Not in the key: comments, the
order of keys, names and places of recipes and files, the device (a CUDA result is served on a CPU).
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from compress.errors import EnvironmentProblem
from compress.measurement.machine import processor
from compress.models.builders import VARIANT_SOURCE
from compress.models.variant import Variant
from compress.pipeline.files import digest_of, sha256, tree_sha256
from compress.pipeline.serialize import identity, torch_variants
from compress.pipeline.sources import SourceReader
from compress.recipe.model_reference import ModelReference
from compress.recipe.registry import Registry
from compress.recipe.schema import Node, Recipe
from edge_runtime.errors import EngineError
from export.targets import Target

SCHEMA = 1
_FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Ingredients:
    """What a key is computed from, readable: it is kept with the result as its provenance."""

    stage: str
    use: str
    names: tuple[str, ...]
    settings: Any
    seed: int
    parents: tuple[dict[str, Any], ...]
    references: tuple[dict[str, Any], ...]
    data: str
    data_settings: Any
    task: str
    target: dict[str, Any]
    sources: dict[str, str]
    versions: dict[str, str]
    machine: dict[str, str]
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def key(self) -> str:
        """64 hexadecimal digits."""
        return digest_of(self.to_json())


@dataclass(frozen=True)
class Surroundings:
    """What all executions of a run share: computed once, before the first."""

    recipe: Recipe
    registry: Registry
    target: Target
    data_digest: str
    reader: SourceReader


def stage_seed(seed: int, stage_id: str) -> int:
    """The seed of a stage, 32 bits: different for every stage, the same wherever in the recipe it stands."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{stage_id}".encode()).digest()[:4], "big")


def ingredients(
    node: Node, surroundings: Surroundings, parents: Sequence[Variant], references: Sequence[Variant]
) -> Ingredients:
    """What the key of one execution is computed from, given the variants that it takes."""
    recipe, registry = surroundings.recipe, surroundings.registry
    stage, task = registry.stages[node.stage.use], registry.tasks[recipe.task]
    # A digest covers weights and the builder's name; what the network computes with them is the builder's code.
    folders = sorted({variant.directory for variant in torch_variants((*parents, *references))})
    builders = [module for folder in folders for module in _modules_of_saved(folder, registry)]
    found = surroundings.reader.sources((*_modules(node, surroundings), *builders))
    packages = {*stage.packages, *_distributions(found.installed)}
    return Ingredients(
        stage=node.stage.id,
        use=node.stage.use,
        names=node.results,
        settings=canonical(node.stage.settings, registry),
        seed=stage_seed(recipe.seed, node.stage.id),
        parents=tuple(identity(parent) for parent in parents),
        references=tuple(identity(reference) for reference in references),
        data=surroundings.data_digest,
        data_settings=canonical(recipe.data, registry, with_files=False),
        task=task.name,
        target=asdict(surroundings.target),
        sources=found.modules,
        versions=versions(packages | (_engine_distributions() if stage.measures else set())) | {"python": _python()},
        machine={"processor": processor(), "architecture": platform.machine()} if stage.measures else {},
    )


def _engine_distributions() -> frozenset[str]:
    """What may run a file, engines of third parties included."""
    from edge_runtime.engines import engine_specs  # brings numpy, which a plan without a measurement does not need

    try:
        return frozenset(spec.distribution for spec in engine_specs().values())
    except EngineError as error:
        raise EnvironmentProblem(str(error)) from error


def data_ingredients(recipe: Recipe, registry: Registry, reader: SourceReader) -> str:
    """Digest of what prepared data depends on, as far as it can be told without reading the data.

    Files and folders that the settings name count by name, size and time of change of what lies in them, so that a
    plan knows whether the data was seen before. A run never trusts this: it prepares the data and takes its digest.
    """
    task = registry.tasks[recipe.task]
    return digest_of(
        {
            "schema": SCHEMA,
            "task": task.name,
            "seed": recipe.seed,
            "settings": canonical(recipe.data, registry, with_files=False),
            "files": [_fingerprint(path) for path in _paths(recipe.data)],
            "sources": reader.sources((_module_of(task), *_modules_of_settings(recipe.data, registry))).modules,
        }
    )


def canonical(value: Any, registry: Registry, *, with_files: bool = True) -> Any:
    """Settings as JSON values that equal settings share: defaults filled in, files by their content.

    With `with_files=False` paths are left out, for settings whose files are in a manifest of their own.
    """
    match value:
        case ModelReference():
            return {"source": value.source, **canonical(_arguments(value, registry), registry, with_files=with_files)}
        case BaseModel():
            fields = {**dict(value), **(value.model_extra or {})}
            return canonical(fields, registry, with_files=with_files)
        case Mapping():
            return {str(key): canonical(item, registry, with_files=with_files) for key, item in value.items()}
        case list() | tuple():
            return [canonical(item, registry, with_files=with_files) for item in value]
        case set() | frozenset():
            return sorted((canonical(item, registry, with_files=with_files) for item in value), key=repr)
        case Path():
            return _content(value) if with_files else {}
        case str() if with_files and _names_a_file(value):
            return {"text": value, **_content(Path(value))}
        case bool() | int() | float() | str() | None:
            return value
        case _:
            return repr(value)


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Installed versions by distribution name; `missing` for one that is not installed."""
    found = {}
    for name in sorted(set(distributions)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def _python() -> str:
    return f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"


def _arguments(reference: ModelReference, registry: Registry) -> Any:
    """The arguments of a model source, as its settings model when it is known: that tells files from texts."""
    model = registry.model_sources.get(reference.source)
    if model is None:
        return reference.arguments
    given = {key: item for key, item in reference.arguments.items() if key in model.model_fields}
    if "source" in model.model_fields:
        given["source"] = reference.source
    return model.model_validate(given)


def _content(path: Path) -> dict[str, str]:
    if path.is_dir():
        return {"folder": tree_sha256(path)}
    return {"file": sha256(path)} if path.is_file() else {"missing": str(path)}


def _names_a_file(text: str) -> bool:
    if not text or len(text) > _LONGEST_PATH or "\0" in text:
        return False
    try:
        return Path(text).is_file()
    except OSError:
        return False


def _module_of(thing: Any) -> str:
    return thing.__module__ if isinstance(thing, type) else type(thing).__module__


def _modules(node: Node, surroundings: Surroundings) -> tuple[str, ...]:
    """Modules whose source decides what an execution gives: stage, task, model and data sources, user code."""
    recipe, registry = surroundings.recipe, surroundings.registry
    stage, task = registry.stages[node.stage.use], registry.tasks[recipe.task]
    return (
        _module_of(stage),
        _module_of(task),
        *_modules_of_settings(node.stage.settings, registry),
        *_modules_of_settings(recipe.data, registry),
    )


def _modules_of_settings(settings: Any, registry: Registry) -> Iterator[str]:
    """Modules of the settings models themselves, of model sources, and of `module:function` values."""
    for value in _values(settings):
        if isinstance(value, ModelReference):
            model = registry.model_sources.get(value.source)
            if model is not None:
                yield _module_of(model)
            yield from _modules_of_settings(value.arguments, registry)
            if value.source == VARIANT_SOURCE:
                yield from _modules_of_saved(Path(str(value.arguments.get("directory"))), registry)
        elif isinstance(value, BaseModel):
            yield _module_of(type(value))
        elif isinstance(value, str):
            match = _FUNCTION.fullmatch(value)
            if match is not None:
                yield match.group(1)


def _modules_of_saved(folder: Path, registry: Registry) -> Iterator[str]:
    """Modules that build a saved network: its model source, and functions that the arguments name."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # a damaged variant is reported by the stage that loads it
        builder = json.loads((folder / "architecture.json").read_bytes())["builder"]
        model = registry.model_sources.get(builder["source"])
        if model is not None:
            yield _module_of(model)
        yield from _modules_of_settings(builder["arguments"], registry)


def _paths(settings: Any) -> Iterator[Path]:
    for value in _values(settings):
        if isinstance(value, Path) or (isinstance(value, str) and _names_a_file(value)):
            yield Path(value)


def _values(value: Any) -> Iterator[Any]:
    """A value and all values inside of it, depth first."""
    yield value
    if isinstance(value, ModelReference):
        return
    if isinstance(value, BaseModel):
        value = {**dict(value), **(value.model_extra or {})}
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _values(item)


def _fingerprint(path: Path) -> list[tuple[str, int, int]]:
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    states = []
    for file in files:
        try:
            state = file.stat()
        except OSError:
            continue
        states.append((file.relative_to(path.parent).as_posix(), state.st_size, state.st_mtime_ns))
    return states


def _distributions(top_levels: Iterable[str]) -> set[str]:
    """The distributions that provide some import names; most are called like what they provide."""
    found: set[str] = set()
    for top in top_levels:
        try:
            found.add(distribution(top).name)
        except PackageNotFoundError:
            found.update(_providers().get(top, ()))
    return found


@cache
def _providers() -> Mapping[str, Sequence[str]]:
    """Reads the file lists of everything that is installed, which takes a moment."""
    return packages_distributions()
