"""The section `tune` of a recipe: what is searched, for which objective, and how the search is carried out.

Every parameter is the path of a setting, as after `--set`. It is judged by the settings model of its stage: each
choice, and both ends of a range, must be values that the recipe itself could have.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from compress.recipe.grammar import STAGE_KEYS, Grammar, Name
from compress.recipe.names import KIND, Names
from compress.recipe.nearest import suggestion
from compress.recipe.problems import KeyPath
from compress.recipe.sections import Checker
from compress.recipe.types import (
    Duration,
    NonNegativeFloat,
    NonNegativeInt,
    OneOrMany,
    PositiveInt,
    Text,
    parse_bytes,
    parse_duration,
    parse_percent,
)
from tune.settings import Direction, PrunerName, SamplerName
from tune.space import Categorical, Parameter, Space, parse_parameter

COSTS = ("parameters", "macs", "size", "latency")
"""Objectives that are no metric of the task: lower is better. Size in bytes, latency in seconds."""
DEFAULT_SPACE: Mapping[str, Any] = {
    "learning_rate": {"low": 1e-5, "high": 1e-2, "log": True},
    "batch_size": [32, 64, 128],
}
_LIMIT = re.compile(r"\s*(<=|>=)\s*(.+)")
_MOST_CHOICES_CHECKED = 100


class PrunerKeys(Grammar):
    """When a trial is ended early, judged on validation after each epoch."""

    use: PrunerName = Field("median", description="the rule")
    startup: NonNegativeInt = Field(5, description="trials that have to end before any is cut")
    warmup: NonNegativeInt = Field(1, description="epochs after which a trial may be cut at the earliest")
    patience: PositiveInt = Field(2, description="of `patient`: epochs without improvement that it waits for")
    reduction: int = Field(3, ge=2, description="of successive halving and Hyperband: one of so many goes on")
    most: PositiveInt | None = Field(None, description="of Hyperband: epochs of a whole trial; default: found")
    p: float = Field(0.1, gt=0, lt=1, description="of Wilcoxon's test: its level")


class TrialStopping(BaseModel):
    """Early stopping that a trial gets where its stage has none of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    patience: PositiveInt = Field(3, description="epochs without improvement on validation")
    min_delta: NonNegativeFloat = Field(0.0, description="what counts as an improvement")


class TuneGrammar(Grammar):
    """A search over settings of the recipe; `edgepress tune` carries it out."""

    space: dict[str, Any] | None = Field(
        None,
        description="paths of settings, each a list of choices or `{low, high, log, step}`; default: learning rate "
        "from 1e-5 to 1e-2 on a logarithmic scale, and batch size 32, 64 or 128, of the first stage that has them",
    )
    of: Text | None = Field(
        None, description="the torch variant whose validation counts; default: of the last stage in the space"
    )
    objective: OneOrMany[Text] | None = Field(
        None, description="a metric of the task (its default), and `parameters`, `macs`, `size` or `latency` behind it"
    )
    trials: PositiveInt = Field(40, description="number of trials")
    sampler: SamplerName = Field("tpe", description="how points are chosen")
    pruner: PrunerName | PrunerKeys = Field("median", description="when a trial is ended early; or its keys")
    early_stopping: TrialStopping | None = Field(
        TrialStopping(), description="for searched stages without their own; null: none"
    )
    timeout: Duration | None = Field(None, gt=0, description="start no trial after this time")
    storage: Text | None = Field(
        None, description="a journal file or a URL; default: a journal file in the store, named after the study"
    )
    study: Name | None = Field(None, description="name of the study; default: the recipe's name")
    pick: dict[str, Text] = Field(
        default={}, description='limits that the chosen trial keeps, such as `latency: "<= 8 ms"`'
    )


@dataclass(frozen=True)
class PickLimit:
    """A limit of `pick`: `at_most` says which side of `value` is within it. Shares, seconds, bytes, counts."""

    value: float
    at_most: bool


@dataclass(frozen=True)
class TuneSpec:
    """The section after validation. `space` has paths as names; `stages` are the ids that it touches, in order.

    `objectives` are names with directions, the metric first; `stopped` the stages that get `early_stopping`, `trained`
    those whose batches can be split.
    """

    settings: TuneGrammar
    space: Space
    stages: tuple[str, ...]
    stopped: tuple[str, ...]
    trained: tuple[str, ...]
    of: str
    objectives: tuple[tuple[str, Direction], ...]
    pick: dict[str, PickLimit]


@dataclass(frozen=True)
class TuneEntry:
    """The section as far as it can be judged without knowing names of variants."""

    settings: TuneGrammar
    space: dict[str, Parameter]
    stages: tuple[str, ...]
    stopped: tuple[str, ...]
    trained: tuple[str, ...]
    objectives: tuple[tuple[str, Direction], ...]
    pick: dict[str, PickLimit]


def check_tune(root: Mapping[str, Any], checker: Checker) -> TuneEntry | None:
    """The section, or None when there is none or it is wrong."""
    if root.get("tune") is None:
        return None
    settings = checker.validate(TuneGrammar, root["tune"], ("tune",), "tune")
    if settings is None:
        return None
    before = len(checker.problems)
    items = {item["id"]: item for item in _stages(root)}
    space = _space(settings, items, checker)
    objectives = _objectives(settings, root.get("task"), checker)
    pick = dict(_picks(settings, [name for name, _ in objectives], checker))
    if len(checker.problems) > before or not space:
        return None
    touched = {path.split(".")[1] for path in space}
    stages = tuple(stage for stage in items if stage in touched)
    stopped = tuple(stage for stage in stages if "early_stopping" in _free_keys(items[stage], checker))
    trained = tuple(stage for stage in stages if "accumulation" in _free_keys(items[stage], checker))
    return TuneEntry(settings, space, stages, stopped, trained, objectives, pick)


def resolve_tune(entry: TuneEntry | None, names: Names) -> TuneSpec | None:
    """The section with its variant found. What is wrong is reported to `names`."""
    if entry is None or names.opaque:
        return None
    of = entry.settings.of
    torch = [name for name, kind in names.kinds.items() if kind == "torch"]
    if of is None:
        of = next((name for name in reversed(torch) if names.owners[name] in entry.stages), None)
        if of is None:
            names.report(("tune",), f"missing key 'of' in tune: no searched stage gives a torch model{_among(torch)}")
            return None
    elif of not in torch:
        kind = names.kinds.get(of)
        what = f"'{of}' is {KIND[kind]}, and trials are judged on torch models" if kind else f"nothing is called '{of}'"
        names.report(("tune", "of"), what + suggestion(of, torch))
        return None
    needed = ancestors(of, names)
    for stage in entry.stages:
        if stage not in needed:
            path = next(path for path in entry.space if path.split(".")[1] == stage)
            names.report(
                ("tune", "space", path), f"stage '{stage}' does not lead to '{of}': the search could not see it"
            )
            return None
    space = Space(entry.space)
    return TuneSpec(entry.settings, space, entry.stages, entry.stopped, entry.trained, of, entry.objectives, entry.pick)


def ancestors(variant: str, names: Names) -> set[str]:
    """Ids of the stages that have to run for a variant."""
    found: set[str] = set()
    pending = [variant]
    while pending:
        name = pending.pop()
        for node in names.nodes:
            if name in node.results:
                found.add(node.stage.id)
                pending += [*node.parents, *node.references]
    return found


def _among(torch: Sequence[str]) -> str:
    return f"; name one of {', '.join(torch)}" if torch else ""


def _stages(root: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    stages = root.get("stages")
    for item in stages if isinstance(stages, list) else ():
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            yield item


def _model(item: Mapping[str, Any], checker: Checker) -> type[BaseModel] | None:
    use = item.get("use")
    if not isinstance(use, str) or use not in checker.registry.stages:
        return None
    settings: type[BaseModel] = checker.registry.stages[use].Settings
    return settings


def _space(settings: TuneGrammar, items: Mapping[str, Any], checker: Checker) -> dict[str, Parameter]:
    written = settings.space if settings.space is not None else _default_space(items, checker)
    if not written:
        where: KeyPath = ("tune", "space") if settings.space is not None else ("tune",)
        checker.report(where, "the space is empty; expected paths such as stages.baseline.learning_rate")
    space = {}
    for path, value in written.items():
        where = ("tune", "space", path)
        try:
            parameter = parse_parameter(value)
        except ValueError as error:
            checker.report(where, f"{path}: {error}")
            continue
        if _check_path(path, parameter, items, checker):
            space[path] = parameter
    return space


def _default_space(items: Mapping[str, Any], checker: Checker) -> dict[str, Any]:
    for stage, item in items.items():
        model = _model(item, checker)
        if model is not None and set(DEFAULT_SPACE) <= set(model.model_fields):
            return {f"stages.{stage}.{key}": value for key, value in DEFAULT_SPACE.items()}
    return {}


def _check_path(path: str, parameter: Parameter, items: Mapping[str, Any], checker: Checker) -> bool:
    """Whether a path leads to a setting that takes every value of its parameter. Reports the first that it does not."""
    where: KeyPath = ("tune", "space", path)
    first, *rest = path.split(".")
    if first != "stages" or len(rest) < 2 or not all(rest):
        checker.report(where, f"expected a path like stages.baseline.learning_rate, got '{path}'", at_key=True)
        return False
    stage, *keys = rest
    if stage not in items:
        checker.report(where, f"{path}: no stage is called '{stage}'{suggestion(stage, items)}", at_key=True)
        return False
    if keys[0] in STAGE_KEYS:
        checker.report(where, f"{path}: '{keys[0]}' is no setting of the technique and cannot be searched", at_key=True)
        return False
    model = _model(items[stage], checker)
    if model is None:  # reported where it stands
        return True
    for value in _extremes(parameter):
        problem = _problem(stage, items[stage], model, keys, value, checker)
        if problem is not None:
            checker.report(where, f"{path}: {problem}")
            return False
    return True


def _extremes(parameter: Parameter) -> tuple[Any, ...]:
    if isinstance(parameter, Categorical):
        return parameter.choices[:_MOST_CHOICES_CHECKED]
    return (parameter.low, parameter.high)


def _problem(
    stage: str, item: Mapping[str, Any], model: type[BaseModel], keys: Sequence[str], value: Any, checker: Checker
) -> str | None:
    """What the stage's settings say about a value at a path; None when it is right."""
    label = f"stage '{stage}' ({item['use']})"
    settings = {key: copy.deepcopy(given) for key, given in item.items() if key not in STAGE_KEYS}
    trial = Checker(checker.registry)
    trial.validate(model, settings, (), label)
    if trial.problems:  # the stage is wrong as it is, which is reported there
        return None
    here: Any = settings
    for key in keys[:-1]:
        below = here.get(key) if isinstance(here, dict) else None
        if isinstance(here, dict) and below is None:
            below = here[key] = {}
        here = below
    if not isinstance(here, dict):
        return f"'{'.'.join(keys[:-1])}' holds a single value, so it has no key '{keys[-1]}'"
    here[keys[-1]] = value
    trial.validate(model, settings, (), label)
    return trial.problems[0].message if trial.problems else None


def _objectives(settings: TuneGrammar, task: Any, checker: Checker) -> tuple[tuple[str, Direction], ...]:
    if not isinstance(task, str) or task not in checker.registry.tasks:
        return ()
    about = checker.registry.tasks[task]
    metrics = tuple(getattr(about, "metrics", (about.metric,)))
    names = settings.objective if settings.objective is not None else (about.metric,)
    for index, name in enumerate(names):
        where: KeyPath = ("tune", "objective", index)
        if name not in (*metrics, *COSTS):
            checker.report(where, f"unknown objective '{name}'{suggestion(name, (*metrics, *COSTS))}")
        elif name in names[:index]:
            checker.report(where, f"the objective '{name}' is given twice")
        elif (index == 0) != (name in metrics):
            checker.report(where, f"expected a metric of {task} first and costs behind it, got {', '.join(names)}")
            break
    return tuple((name, "maximize" if name in metrics else "minimize") for name in names)


def _picks(settings: TuneGrammar, names: Sequence[str], checker: Checker) -> Iterator[tuple[str, PickLimit]]:
    for name, text in settings.pick.items():
        where: KeyPath = ("tune", "pick", name)
        match = _LIMIT.fullmatch(text)
        if name not in names:
            checker.report(where, f"pick: no objective is called '{name}'{suggestion(name, names)}", at_key=True)
        elif match is None:
            checker.report(where, f"expected a limit such as \"<= 8 ms\", got '{text}'")
        else:
            try:
                yield name, PickLimit(_quantity(name, match.group(2).strip()), match.group(1) == "<=")
            except ValueError as error:
                checker.report(where, f"{name}: {error}, got '{text}'")


def _quantity(name: str, text: str) -> float:
    try:
        plain: Any = float(text)
    except ValueError:
        plain = text
    if name == "latency":
        return float(parse_duration(plain))
    if name == "size":
        return float(parse_bytes(plain))
    if name in COSTS:
        return float(text)
    return float(parse_percent(plain))


def _free_keys(item: Mapping[str, Any], checker: Checker) -> set[str]:
    """Settings of a stage that the recipe leaves out."""
    model = _model(item, checker)
    return set() if model is None else set(model.model_fields) - set(item)
