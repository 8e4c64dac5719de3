"""What a study is asked to do, as data: space, objectives, sampler, pruner. Imports the standard library alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from edge_runtime.nearest import suggestion
from tune.errors import UsageError
from tune.space import Space, parse_space

Direction = Literal["maximize", "minimize"]
SamplerName = Literal["tpe", "random", "grid", "qmc", "cma-es", "nsga-ii"]
PrunerName = Literal["none", "median", "successive-halving", "hyperband", "wilcoxon", "patient"]
SAMPLERS: tuple[SamplerName, ...] = get_args(SamplerName)
PRUNERS: tuple[PrunerName, ...] = get_args(PrunerName)
DESIGNS: tuple[SamplerName, ...] = ("grid", "qmc")
"""Samplers whose points are known before the first trial ends: a study hands them out one by one."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Objective:
    """One value that every trial gives. `measured_first`: known before training, and so a reason not to train."""

    name: str
    direction: Direction = "maximize"
    measured_first: bool = False


@dataclass(frozen=True)
class Pruner:
    """When a trial is ended early, judged on what it reports.

    `startup`: trials that have to end before any is cut. `warmup`: reports of a trial before it may be cut.
    `patience`: reports without improvement that `patient` waits for. `reduction`: one of this many goes on from a rung
    to the next (successive halving, Hyperband). `most`: reports of a whole trial, which Hyperband needs to lay out its
    brackets; None finds it from the first trials. `p`: level of the Wilcoxon test.
    """

    use: PrunerName = "median"
    startup: int = 5
    warmup: int = 1
    patience: int = 2
    reduction: int = 3
    most: int | None = None
    p: float = 0.1


@dataclass(frozen=True)
class StudySettings:
    """A study. `objectives` has one entry, or two or more, of which the first is the one that is reported per step.

    `function` (`module:function`) makes the objective from `payload`, so that a worker on another machine finds both
    in the storage. `limits` are the largest (smallest, where maximized) values of objectives that are measured first
    that a trial may have: one beyond them is not trained. `identity` stands for all else that values depend on (a
    digest of the recipe, say): trials of another identity are never added to a study.
    """

    name: str
    space: Space
    objectives: tuple[Objective, ...] = (Objective("score"),)
    trials: int = 40
    sampler: SamplerName = "tpe"
    pruner: Pruner = field(default_factory=Pruner)
    seed: int = 0
    function: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    identity: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "space": self.space.to_json(),
            "payload": dict(self.payload),
            "limits": dict(self.limits),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StudySettings:
        """Settings as `to_json` gave them. Raises UsageError, KeyError or TypeError for anything else."""
        known = {item.name for item in fields(cls)}
        return cls(
            **{
                **{key: value for key, value in stored.items() if key in known},
                "space": parse_space(stored["space"]),
                "objectives": tuple(Objective(**item) for item in stored["objectives"]),
                "pruner": Pruner(**stored["pruner"]),
            }
        )


def check(settings: StudySettings) -> None:
    """Raises UsageError with everything that is wrong with a study's settings."""
    problems = [*_named(settings), *_objectives(settings), *_pruner(settings.pruner)]
    if settings.trials < 1:
        problems.append(f"trials: expected a whole number of at least 1, got {settings.trials}")
    if settings.sampler == "cma-es" and len(settings.objectives) > 1:
        problems.append("sampler: cma-es takes a single objective; expected tpe, nsga-ii, random, grid or qmc")
    if settings.function is not None and not FUNCTION.fullmatch(settings.function):
        problems.append(f"function: expected package.module:function, got '{settings.function}'")
    if problems:
        raise UsageError(problems)


def _named(settings: StudySettings) -> list[str]:
    problems = []
    if not NAME.fullmatch(settings.name):
        problems.append(
            f"name: expected letters, digits and . _ - that start with none of these, got '{settings.name}'"
        )
    if settings.sampler not in SAMPLERS:
        problems.append(f"sampler: unknown sampler '{settings.sampler}'{suggestion(settings.sampler, SAMPLERS)}")
    if settings.pruner.use not in PRUNERS:
        problems.append(f"pruner: unknown pruner '{settings.pruner.use}'{suggestion(settings.pruner.use, PRUNERS)}")
    return problems


def _objectives(settings: StudySettings) -> list[str]:
    names = [objective.name for objective in settings.objectives]
    if not names:
        return ["objectives: expected at least one"]
    problems = [f"objectives: '{name}' is given twice" for name in sorted(set(names)) if names.count(name) > 1]
    for objective in settings.objectives:
        if objective.direction not in get_args(Direction):
            problems.append(
                f"objectives: expected maximize or minimize for '{objective.name}', got '{objective.direction}'"
            )
    first = {objective.name for objective in settings.objectives if objective.measured_first}
    for name in settings.limits:
        if name not in first:
            problems.append(f"limits: no objective that is measured first is called '{name}'{suggestion(name, first)}")
    return problems


def _pruner(pruner: Pruner) -> list[str]:
    least = {"startup": 0, "warmup": 0, "patience": 1, "reduction": 2}
    problems = [
        f"pruner: expected a whole number of at least {bound} for {key}, got {getattr(pruner, key)}"
        for key, bound in least.items()
        if getattr(pruner, key) < bound
    ]
    if pruner.most is not None and pruner.most < 1:
        problems.append(f"pruner: expected a whole number of at least 1 for most, got {pruner.most}")
    if not 0 < pruner.p < 1:
        problems.append(f"pruner: expected a number between 0 and 1 for p, got {pruner.p}")
    return problems
