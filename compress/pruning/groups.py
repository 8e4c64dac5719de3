"""Which channels of a network must be cut together. Plain data: module paths and indices, no tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from compress.models.architecture import ChannelEdit

Dimension = Literal["out", "in", "0", "1", "2", "3"]


@dataclass(frozen=True)
class Member:
    """One channel axis of one layer (or of a bare parameter), `size` channels long."""

    module: str
    dimension: Dimension
    size: int


@dataclass(frozen=True)
class ChannelGroup:
    """Channels that can be dropped one by one, each with everything that is coupled to it.

    `channels[c]` lists what channel c of the group is in the layers: (position in `members`, index along that axis).
    `blocks` partitions the channels; of each block equally many are kept, because a grouped layer or a split in the
    network needs that. Most groups have one block.
    """

    name: str
    members: tuple[Member, ...]
    channels: tuple[tuple[tuple[int, int], ...], ...]
    blocks: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.channels)

    def items_of(self, position: int) -> list[tuple[int, int]]:
        """(channel of the group, index along the axis) of the member at this position."""
        return [
            (channel, index) for channel, own in enumerate(self.channels) for place, index in own if place == position
        ]

    def step(self, multiple: int) -> int:
        """How many channels of each block go at a time, so that every layer keeps a multiple of `multiple`."""
        counts = [0] * len(self.members)
        for channel in self.channels:
            for member, _ in channel:
                counts[member] += 1
        block = len(self.blocks[0])
        return math.lcm(*(multiple // math.gcd(multiple, max(count // block, 1)) for count in counts))


@dataclass(frozen=True)
class Excluded:
    """Channels that stay, and why."""

    name: str
    modules: tuple[str, ...]
    channels: int
    reason: str


@dataclass(frozen=True)
class ChannelGraph:
    """All channel groups of a network in its order, and what is excluded from pruning."""

    groups: tuple[ChannelGroup, ...]
    excluded: tuple[Excluded, ...] = ()


def exclude(group: ChannelGroup, reason: str) -> Excluded:
    modules = tuple(dict.fromkeys(member.module for member in group.members))
    return Excluded(group.name, modules, len(group), reason)


def edits_for(groups: Iterable[ChannelGroup], dropped: Mapping[str, frozenset[int]]) -> tuple[ChannelEdit, ...]:
    """The edits that drop these channels (by group name), one for each layer axis that loses any."""
    gone: dict[Member, set[int]] = {}
    for group in groups:
        for channel in dropped.get(group.name, ()):
            for member, index in group.channels[channel]:
                gone.setdefault(group.members[member], set()).add(index)
    return tuple(
        ChannelEdit(
            member.module, member.dimension, tuple(index for index in range(member.size) if index not in indices)
        )
        for member, indices in gone.items()
    )
