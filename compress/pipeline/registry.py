"""The registry of a whole installation: built-in stages, tasks and sources, and those that entry points add.

Entry point groups: `edgepress.stages` (an object of the Stage protocol by its `use`), `edgepress.tasks` (an object of
the Task protocol), `edgepress.model_sources` (a `ModelSource`), `edgepress.data_sources` (a settings model, named
`<task>/<source>`). Nothing is imported before a name is looked up, so that one broken plug-in breaks no other recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from compress.errors import EnvironmentProblem
from compress.recipe.registry import Registry

STAGES = {
    name: f"compress.stages.{name}:STAGE"
    for name in ("load", "train", "prune", "distill", "quantize", "export", "benchmark")
}
TASKS = {"image-classification": "compress.tasks.image_classification.task:TASK"}
_DATA_SOURCES = {"image-classification": "compress.tasks.image_classification.sources:DATA_SOURCES"}
_Load = Callable[[], Any]


class LazyMapping(Mapping[str, Any]):
    """Names whose values are loaded when they are first looked up; asking whether a name is there loads nothing."""

    def __init__(self, loaders: Mapping[str, _Load]) -> None:
        self._loaders = dict(loaders)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._loaders[name]()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __contains__(self, name: object) -> bool:
        return name in self._loaders


def installed_registry() -> Registry:
    """Built-ins and entry points. Imports no framework.

    Raises EnvironmentProblem on a name that two distributions claim, and, on lookup, for one that cannot be imported.
    """
    from compress.models.builders import MODEL_SOURCES
    from compress.report.claims import REFERENCES
    from export.targets import TARGETS

    models: dict[str, _Load] = {name: partial(_settings, source) for name, source in MODEL_SOURCES.items()}
    return Registry(
        stages=LazyMapping(_with_plugins(_built_in(STAGES), "edgepress.stages")),
        tasks=LazyMapping(_with_plugins(_built_in(TASKS), "edgepress.tasks")),
        model_sources=LazyMapping(_with_plugins(models, "edgepress.model_sources", _settings)),
        data_sources=_data_sources(),
        targets=("host", *TARGETS),
        references=tuple(REFERENCES),
    )


def _built_in(table: Mapping[str, str]) -> dict[str, _Load]:
    return {name: partial(_import, path) for name, path in table.items()}


def _import(path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise EnvironmentProblem(
            f"the package '{error.name}' is not installed; the workstation's packages come with "
            "pip install 'edgepress[compress]'"
        ) from error


def _with_plugins(
    built_in: Mapping[str, _Load], group: str, convert: Callable[[Any], Any] = lambda value: value
) -> dict[str, _Load]:
    found = dict(built_in)
    owners = dict.fromkeys(built_in, "edgepress")
    for point in entry_points(group=group):
        owner = _owner(point)
        if point.name in found:
            raise EnvironmentProblem(
                f"'{point.name}' is registered under {group} by {owners[point.name]} and by {owner}; "
                "uninstall one of them"
            )
        found[point.name] = partial(_plugin, point, convert)
        owners[point.name] = owner
    return found


def _plugin(point: EntryPoint, convert: Callable[[Any], Any]) -> Any:
    try:
        return convert(point.load())
    except Exception as error:  # whatever a third party's module raises while it is imported
        raise EnvironmentProblem(
            f"'{point.name}' from {_owner(point)} cannot be loaded ({point.value}): {type(error).__name__}: {error}"
        ) from error


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown distribution"


def _settings(source: Any) -> Any:
    return source.Settings


def _data_sources() -> Mapping[str, Mapping[str, Any]]:
    """By task. The sources of a plug-in's own task come through the same group."""
    plugins: dict[str, dict[str, _Load]] = {}
    for name, load in _with_plugins({}, "edgepress.data_sources").items():
        task, slash, source = name.rpartition("/")
        if not slash:
            raise EnvironmentProblem(f"the data source '{name}' must be registered as <task>/<source>")
        plugins.setdefault(task, {})[source] = load
    tasks = {*_DATA_SOURCES, *plugins}
    return LazyMapping({task: partial(_sources_of, task, plugins.get(task, {})) for task in sorted(tasks)})


def _sources_of(task: str, plugins: Mapping[str, _Load]) -> Mapping[str, Any]:
    built_in: Mapping[str, Any] = _import(_DATA_SOURCES[task]) if task in _DATA_SOURCES else {}
    for name in plugins:
        if name in built_in:
            raise EnvironmentProblem(f"the data source '{task}/{name}' is built in; a plug-in needs another name")
    loaders: dict[str, _Load] = {name: partial(_same, settings) for name, settings in built_in.items()}
    return LazyMapping({**loaders, **plugins})


def _same(value: Any) -> Any:
    return value
