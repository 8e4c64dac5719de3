"""Keeps only the channel groups that really can be cut: copies are cut at random and compared with masked ones.

A tracer cannot see everything: a shuffle, a split at a constant, a reshape that counts on a size. Groups that would
change the function of the network, or break it, are excluded here with what went wrong.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from compress.pruning.groups import ChannelGraph, ChannelGroup, Excluded, edits_for, exclude
from compress.pruning.masked import Comparison, compare

if TYPE_CHECKING:
    from torch import Tensor, nn


def proven(module: nn.Module, graph: ChannelGraph, inputs: Tensor, seed: int) -> ChannelGraph:
    """The graph with the groups that passed. All groups are tried at once first; halves are searched on failure."""
    generator = random.Random(seed)
    dropped = {group.name: _half(group, generator) for group in graph.groups}

    def trial(groups: tuple[ChannelGroup, ...]) -> Comparison:
        return compare(module, edits_for(groups, {group.name: dropped[group.name] for group in groups}), inputs)

    def search(groups: tuple[ChannelGroup, ...]) -> tuple[list[ChannelGroup], list[Excluded]]:
        outcome = trial(groups) if groups else Comparison(0.0)
        if outcome.equal:
            return list(groups), []
        if len(groups) == 1:
            return [], [exclude(groups[0], _reason(outcome))]
        middle = len(groups) // 2
        first, second = search(groups[:middle]), search(groups[middle:])
        return first[0] + second[0], first[1] + second[1]

    kept, excluded = search(graph.groups)
    together: list[ChannelGroup] = []
    if excluded and not trial(tuple(kept)).equal:  # groups that pass alone and fail together
        for group in kept:
            outcome = trial((*together, group))
            if outcome.equal:
                together.append(group)
            else:
                excluded.append(exclude(group, _reason(outcome)))
        kept = together
    return ChannelGraph(tuple(kept), (*graph.excluded, *excluded))


def _half(group: ChannelGroup, generator: random.Random) -> frozenset[int]:
    """Half of the channels of each block, at random; equally many in each."""
    return frozenset(channel for block in group.blocks for channel in generator.sample(block, len(block) // 2))


def _reason(outcome: Comparison) -> str:
    return outcome.error or f"cutting it changes the outputs, by {outcome.difference:.1g} of the largest"
