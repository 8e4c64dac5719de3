"""Decides which channels go, before anything is cut. A plan can be printed, compared and tested."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from compress.errors import StageError
from compress.models.architecture import ChannelEdit
from compress.models.cost import Cost
from compress.pruning.groups import ChannelGraph, ChannelGroup, Excluded, edits_for, exclude
from compress.pruning.importance import Scores
from compress.pruning.planned_cost import CostModel

Scope = Literal["local", "global"]


@dataclass(frozen=True)
class Limits:
    """The most that the network may cost afterwards; None does not limit."""

    parameters: int | None
    macs: int | None

    def met_by(self, cost: Cost) -> bool:
        return (self.parameters is None or cost.parameters <= self.parameters) and (
            self.macs is None or cost.macs <= self.macs
        )


@dataclass(frozen=True)
class Rules:
    """`local` takes the same share from every group, `global` compares the scores of all groups.

    Every layer keeps a multiple of `multiple` channels, and at least the share `keep_at_least` of those that it has.
    """

    scope: Scope
    multiple: int
    keep_at_least: float


@dataclass(frozen=True)
class GroupPlan:
    """`modules` are the layers that lose channels together."""

    name: str
    modules: tuple[str, ...]
    channels: int
    kept: int


@dataclass(frozen=True)
class PruningPlan:
    """What will be cut, and what it will cost; `reached` says whether all limits will be met."""

    groups: tuple[GroupPlan, ...]
    excluded: tuple[Excluded, ...]
    edits: tuple[ChannelEdit, ...]
    before: Cost
    after: Cost
    reached: bool

    def __str__(self) -> str:
        names = [group.name for group in self.groups] + [group.name for group in self.excluded]
        width = max(map(len, names), default=0)
        lines = [f"{group.name:<{width}}  {group.channels:>5} -> {group.kept}" for group in self.groups]
        lines += [f"{stays.name:<{width}}  {stays.channels:>5} stay: {stays.reason}" for stays in self.excluded]
        lines.append(f"parameters {_change(self.before.parameters, self.after.parameters)}")
        lines.append(f"multiply-accumulates {_change(self.before.macs, self.after.macs)}")
        return "\n".join(lines)


def _change(before: int, after: int) -> str:
    return f"{before} -> {after} ({after / before - 1:+.1%})" if before else "0"


def protect(graph: ChannelGraph, paths: Sequence[str]) -> ChannelGraph:
    """Excludes the groups that would cut an output channel of these modules or of a module below them."""

    def covering(group: ChannelGroup) -> str | None:
        made = [member.module for member in group.members if member.dimension != "in"]
        return next((path for path in paths for name in made if name == path or fnmatchcase(name, f"{path}.*")), None)

    groups, excluded = [], []
    for group in graph.groups:
        path = covering(group)
        if path is None:
            groups.append(group)
        else:
            excluded.append(exclude(group, f"{path} is protected"))
    return ChannelGraph(tuple(groups), (*graph.excluded, *excluded))


def make_plan(
    graph: ChannelGraph, scores: Scores, costs: CostModel, limits: Limits, rules: Rules, *, best_effort: bool = False
) -> PruningPlan:
    """The smallest cut, along the order of importance, that meets all limits.

    Raises StageError when the channels that can be cut do not suffice, unless `best_effort`: then all that can go
    goes.
    """
    groups, narrow = _wide_enough(graph.groups, rules)
    excluded = (*graph.excluded, *narrow)
    steps = _steps(groups, scores, rules)
    search = _Search(groups, steps, costs)
    count = search.shortest(limits)
    reached = count is not None
    if count is None and not best_effort:
        raise StageError(_unreachable(search, limits, excluded))
    taken = search.trimmed(count, limits) if count is not None else list(range(len(steps)))
    dropped = search.dropped(taken)
    edits = edits_for(groups, dropped)
    return PruningPlan(
        groups=tuple(
            GroupPlan(
                group.name,
                tuple(dict.fromkeys(member.module for member in group.members)),
                len(group),
                len(group) - len(dropped[group.name]),
            )
            for group in groups
        ),
        excluded=excluded,
        edits=edits,
        before=costs.cost({}),
        after=search.cost(taken),
        reached=reached,
    )


def _wide_enough(groups: Sequence[ChannelGroup], rules: Rules) -> tuple[tuple[ChannelGroup, ...], list[Excluded]]:
    wide, narrow = [], []
    for group in groups:
        if len(group.blocks[0]) > group.step(rules.multiple):
            wide.append(group)
        else:
            narrow.append(exclude(group, f"no narrower multiple of {rules.multiple} channels"))
    return tuple(wide), narrow


@dataclass(frozen=True)
class _Step:
    """Channels of one group that go together, so that what stays is a multiple again. `key` orders all steps."""

    key: tuple[float, float, int, int]
    group: int
    channels: frozenset[int]


def _steps(groups: Sequence[ChannelGroup], scores: Scores, rules: Rules) -> list[_Step]:
    """All steps of all groups, in the order in which they are taken; within a group less important channels first."""
    steps = []
    for position, group in enumerate(groups):
        values = scores[group.name]
        ordered = [sorted(block, key=lambda channel: (values[channel], channel)) for block in group.blocks]
        size, width = len(ordered[0]), group.step(rules.multiple)
        floor = max(width, math.ceil(rules.keep_at_least * size / width) * width)
        kept, highest = size, -math.inf
        while (after := (kept - 1) // width * width) >= floor:
            channels = [channel for block in ordered for channel in block[size - kept : size - after]]
            mean = sum(values[channel] for channel in channels) / len(channels)
            # The means rise, but for rounding: a step must never come before the one it builds on.
            highest = max(highest, mean)
            key = (1 - after / size, highest) if rules.scope == "local" else (highest, 1 - after / size)
            steps.append(_Step((*key, position, -after), position, frozenset(channels)))
            kept = after
    return sorted(steps, key=lambda step: step.key)


class _Search:
    """Evaluates sets of steps. A set holds, with a step, all earlier steps of the same group."""

    def __init__(self, groups: Sequence[ChannelGroup], steps: Sequence[_Step], costs: CostModel) -> None:
        self.groups, self.steps, self.costs = groups, steps, costs
        self.lost = [self._axes(step) for step in steps]

    def _axes(self, step: _Step) -> dict[tuple[str, str], int]:
        group = self.groups[step.group]
        lost: dict[tuple[str, str], int] = {}
        for channel in step.channels:
            for member, _ in group.channels[channel]:
                axis = (group.members[member].module, group.members[member].dimension)
                lost[axis] = lost.get(axis, 0) + 1
        return lost

    def cost(self, taken: Sequence[int]) -> Cost:
        kept: dict[tuple[str, str], int] = {}
        for index in taken:
            for axis, count in self.lost[index].items():
                kept[axis] = kept.get(axis, self.costs.sizes[axis]) - count
        return self.costs.cost(kept)

    def shortest(self, limits: Limits) -> int | None:
        """How many of the first steps meet the limits; by bisection, because every step makes the network cheaper."""
        if not limits.met_by(self.cost(range(len(self.steps)))):
            return None
        low, high = 0, len(self.steps)
        while low < high:
            middle = (low + high) // 2
            if limits.met_by(self.cost(range(middle))):
                high = middle
            else:
                low = middle + 1
        return low

    def trimmed(self, count: int, limits: Limits) -> list[int]:
        """The first `count` steps without those that the limits do not need, the most important ones taken back first.

        With two limits one is met before the other; what was cut for the first alone after that is given back.
        """
        taken = list(range(count))
        blocked: set[int] = set()
        for index in reversed(range(count)):
            group = self.steps[index].group
            if group in blocked:
                continue
            without = [other for other in taken if other != index]
            if limits.met_by(self.cost(without)):
                taken = without
            else:
                blocked.add(group)
        return taken

    def dropped(self, taken: Sequence[int]) -> Mapping[str, frozenset[int]]:
        dropped: dict[str, frozenset[int]] = {group.name: frozenset() for group in self.groups}
        for index in taken:
            name = self.groups[self.steps[index].group].name
            dropped[name] |= self.steps[index].channels
        return dropped


def _unreachable(search: _Search, limits: Limits, excluded: Sequence[Excluded]) -> str:
    before, least = search.cost(()), search.cost(range(len(search.steps)))
    parts = []
    for what, limit, full, reachable in (
        ("parameters", limits.parameters, before.parameters, least.parameters),
        ("multiply-accumulates", limits.macs, before.macs, least.macs),
    ):
        if limit is not None and reachable > limit:
            parts.append(f"{what} by {1 - limit / full:.1%}: at most {1 - reachable / full:.1%} can be cut")
    reasons = [f"  {group.name}: {group.channels} channels stay, {group.reason}" for group in excluded[:10]]
    if len(excluded) > 10:
        reasons.append(f"  and {len(excluded) - 10} more groups")
    return "\n".join([*reasons, f"cannot reduce {' and '.join(parts)}; `best_effort: true` takes what can be reached"])
