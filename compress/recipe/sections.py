"""Each section of a recipe against the settings models that the registry holds. Collects problems, raises nothing."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from compress.recipe.gates import GATES
from compress.recipe.grammar import GATE_KEYS, STAGE_KEYS, GateGrammar, RecipeGrammar, StageGrammar
from compress.recipe.messages import Validated, problems_of, shown
from compress.recipe.nearest import suggestion
from compress.recipe.problems import KeyPath, Problem
from compress.recipe.registry import Registry


@dataclass(frozen=True)
class StageEntry:
    """One entry of `stages` as far as it could be understood. `settings` is None when they are wrong."""

    index: int
    id: str
    use: str
    stage: Any
    settings: Any
    parents: tuple[str, ...] | None
    """As written under `from`; None when that is left out."""
    template: str | None


@dataclass(frozen=True)
class GateEntry:
    """One entry of `gates` whose conditions are valid. `of` is still to be resolved."""

    index: int
    of: tuple[str, ...]
    conditions: dict[str, Any]


@dataclass
class Checker:
    """Validates values of a recipe against models, and keeps the problems."""

    registry: Registry
    problems: list[Problem] = field(default_factory=list)

    def report(self, path: KeyPath, message: str, at_key: bool = False) -> None:
        self.problems.append(Problem(path, message, at_key))

    def validate(
        self, model: type[BaseModel], value: Any, path: KeyPath, label: str, also: Collection[str] = ()
    ) -> Any:
        """An instance of the model, or None when the value is wrong. `also`: keys that are valid beside the model's."""
        context = {"model_sources": self.registry.model_sources, "check_paths": True, "check_engines": True}
        try:
            # As JSON, strict models take lists for tuples and text for paths, and still no text for numbers.
            return model.model_validate_json(json.dumps(value), context=context)
        except ValidationError as error:
            validated = Validated(model, value, path, label, self.registry.model_sources, also)
            self.problems += problems_of(error, validated)
            return None

    def known(self, name: str, valid: Any, kind: str, path: KeyPath) -> bool:
        """Reports a name that is not registered, with the nearest one that is."""
        if name in valid:
            return True
        self.report(path, f"unknown {kind} '{name}'{suggestion(name, valid)}")
        return False


def check_top(root: Any, checker: Checker) -> None:
    """The keys of the recipe itself, and the names of task, target and reference."""
    if not isinstance(root, dict):
        checker.report((), "the recipe is empty" if root is None else f"expected a mapping of keys, got {shown(root)}")
        return
    checker.validate(RecipeGrammar, root, (), "the recipe")
    registry = checker.registry
    for key, valid, kind in (
        ("task", registry.tasks, "task"),
        ("target", registry.targets, "target"),
        ("reference", registry.references, "reference"),
    ):
        if isinstance(root.get(key), str) and root[key]:
            checker.known(root[key], valid, kind, (key,))


def check_data(data: Any, task: Any, checker: Checker) -> tuple[Any, dict[str, Any]]:
    """The settings of the data source, and the section in canonical form."""
    if not isinstance(data, dict) or not isinstance(task, str) or task not in checker.registry.tasks:
        return None, {}
    sources = checker.registry.data_sources.get(task, {})
    if not sources:
        checker.report(("data",), f"no data source is installed for the task {task}")
        return None, {}
    source = data.get("source")
    if not isinstance(source, str):
        problem = "missing key 'source' in data" if "source" not in data else f"expected text, got {shown(source)}"
        checker.report(("data", "source"), f"{problem}; expected one of {', '.join(sorted(sources))}")
        return None, {}
    if not checker.known(source, sources, f"data source of {task}", ("data", "source")):
        return None, {}
    model = sources[source]
    settings = checker.validate(model, _without_source(data, model), ("data",), f"data source '{source}'")
    canonical = {} if settings is None else {"source": source, **settings.model_dump(mode="json", by_alias=True)}
    return settings, canonical


def _without_source(section: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != "source" or "source" in model.model_fields}


def check_stages(stages: Any, checker: Checker) -> list[StageEntry]:
    """The entries of `stages` that have at least an id."""
    if not isinstance(stages, list):
        return []
    entries = [_stage(index, item, checker) for index, item in enumerate(stages) if isinstance(item, dict)]
    return [entry for entry in entries if entry is not None]


def _stage(index: int, item: dict[str, Any], checker: Checker) -> StageEntry | None:
    path = ("stages", index)
    identity = item.get("id") if isinstance(item.get("id"), str) else None
    use = item.get("use") if isinstance(item.get("use"), str) else None
    label = f"stage '{identity}'" if identity else f"stage {index + 1}"
    own = {key: value for key, value in item.items() if key in STAGE_KEYS}
    grammar = checker.validate(StageGrammar, own, path, label)
    stage = None
    if use and checker.known(use, checker.registry.stages, "technique", (*path, "use")):
        stage = checker.registry.stages[use]
    settings = None
    if stage is not None:
        rest = {key: value for key, value in item.items() if key not in STAGE_KEYS}
        # `form:` may be a misspelt setting or a misspelt `from:`, so both are offered.
        settings = checker.validate(stage.Settings, rest, path, f"{label} ({use})", also=STAGE_KEYS)
    if not identity:
        return None
    return StageEntry(
        index=index,
        id=identity,
        use=use or "",
        stage=stage,
        settings=settings if grammar is not None else None,
        parents=grammar.from_ if grammar is not None else _parents(item.get("from")),
        template=grammar.as_ if grammar is not None else None,
    )


def _parents(written: Any) -> tuple[str, ...] | None:
    if isinstance(written, str):
        return (written,)
    return tuple(name for name in written if isinstance(name, str)) if isinstance(written, list) else None


def check_gates(gates: Any, task: Any, checker: Checker) -> list[GateEntry]:
    """The entries of `gates` that are valid in themselves, for a recipe of this task."""
    if not isinstance(gates, list):
        return []
    found = [_gate(index, item, checker) for index, item in enumerate(gates) if isinstance(item, dict)]
    entries = [entry for entry in found if entry is not None]
    if isinstance(task, str) and task in checker.registry.tasks:
        _check_metrics(entries, task, checker)
    return entries


def _check_metrics(entries: list[GateEntry], task: str, checker: Checker) -> None:
    """A gate on a metric that nothing measures would fail at the end of the run."""
    if not any(hasattr(condition, "metric") for entry in entries for condition in entry.conditions.values()):
        return
    about = checker.registry.tasks[task]
    metrics = getattr(about, "metrics", (about.metric,))
    for entry in entries:
        for name, condition in entry.conditions.items():
            metric = getattr(condition, "metric", None)
            if metric is not None:
                checker.known(metric, metrics, f"metric of {task}", ("gates", entry.index, name, "metric"))


def _gate(index: int, item: dict[str, Any], checker: Checker) -> GateEntry | None:
    path = ("gates", index)
    before = len(checker.problems)
    own = {key: value for key, value in item.items() if key in GATE_KEYS}
    grammar = checker.validate(GateGrammar, own, path, f"gate {index + 1}")
    conditions = {}
    for name, value in item.items():
        if name in GATE_KEYS:
            continue
        if name not in GATES:
            checker.report((*path, name), f"unknown gate '{name}'{suggestion(name, [*GATES, *GATE_KEYS])}", at_key=True)
            continue
        conditions[name] = checker.validate(GATES[name], value, (*path, name), f"gate '{name}'")
    if len(checker.problems) == before and not conditions:
        checker.report(path, f"gate {index + 1} has no condition; expected one of {', '.join(GATES)}")
    if grammar is None:
        return None
    return GateEntry(index, grammar.of, {name: value for name, value in conditions.items() if value is not None})
