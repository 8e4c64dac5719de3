"""Groups coupled channels by the layers that they run through: what can be dropped one by one.

What the trace got wrong (a shuffle, a constant in the code) is found by `compress.pruning.trial`, which cuts copies
and compares.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compress.pruning.coupling import Item, Node, components, read_nodes
from compress.pruning.groups import ChannelGraph, ChannelGroup, Dimension, Excluded, Member, exclude

if TYPE_CHECKING:
    from torch import Tensor, nn


def trace(module: nn.Module, inputs: Tensor) -> ChannelGraph:
    """The channel groups of `module`, which is left as it was. `inputs` (1, C, H, W).

    Raises StageError when the network cannot be traced.
    """
    traced = copy.deepcopy(module).eval().requires_grad_(True)
    nodes = read_nodes(traced, inputs)
    coupled, invalid = components(nodes)
    return _group(traced, nodes, coupled, invalid)


class _Union:
    """Disjoint sets of hashable things."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, item: Any) -> Any:
        while (parent := self.parent.setdefault(item, item)) != item:
            item = parent
        return item

    def join(self, first: Any, second: Any) -> None:
        self.parent[self.find(second)] = self.find(first)


def _group(module: nn.Module, nodes: list[Node], coupled: list[list[Item]], invalid: set[Item]) -> ChannelGraph:
    """Collects components that run through the same layers into groups, and joins groups that share a constraint."""
    order = {name: position for position, (name, _) in enumerate(module.named_modules())}
    shared = _shared_parameters(module)
    union = _Union()
    by_layers: dict[Any, list[list[Item]]] = defaultdict(list)
    for component in coupled:
        real = [item for item in component if nodes[item[0]].name is not None]
        if not any(side == "out" for _, side, _ in real):
            continue  # the input of the network
        layers = tuple(sorted({(position, side) for position, side, _ in real}))
        by_layers[layers].append(component)
        for constraint, _ in _constraints(nodes, component):
            union.join(("layers", layers), constraint)
    families: dict[Any, list[Any]] = defaultdict(list)
    for layers in by_layers:
        families[union.find(("layers", layers))].append(layers)
    groups, excluded, names = [], list[Excluded](), Counter[str]()
    for family in families.values():
        group, reason = _build_group(nodes, [(layers, by_layers[layers]) for layers in family], invalid, shared, order)
        names[group.name] += 1
        if names[group.name] > 1:  # parts of one layer that are coupled to different layers
            group = replace(group, name=f"{group.name} ({names[group.name]})")
        if reason:
            excluded.append(exclude(group, reason))
        else:
            groups.append(group)
    position = lambda entry: order.get(entry.name, len(order))  # noqa: E731
    return ChannelGraph(tuple(sorted(groups, key=position)), tuple(sorted(excluded, key=position)))


def _constraints(nodes: list[Node], component: list[Item]) -> list[tuple[Any, int]]:
    """Grouped layers and splits that a component runs through, and the block of each that it is in."""
    import torch_pruning

    found: set[tuple[Any, int]] = set()
    for position, side, channel in component:
        entry = nodes[position]
        layer, kind = entry.node.module, entry.node.type
        kinds = torch_pruning.ops.OPTYPE
        if kind == kinds.CONV and layer.groups > 1:
            found.add((("grouped", position, side), channel // (entry.sizes[side] // layer.groups)))
        elif kind == kinds.GN:
            found.add((("grouped", position, side), channel // (layer.num_channels // layer.num_groups)))
        elif kind == kinds.SPLIT and layer.offsets is not None:
            found.add((("split", position), sum(channel >= offset for offset in layer.offsets)))
    return sorted(found, key=repr)


def _build_group(
    nodes: list[Node],
    family: list[tuple[Any, list[list[Item]]]],
    invalid: set[Item],
    shared: dict[str, str],
    order: dict[str, int],
) -> tuple[ChannelGroup, str | None]:
    keys = sorted(
        {key for layers, _ in family for key in layers},
        key=lambda key: (order.get(nodes[key[0]].name or "", len(order)), key[1] != "out", key[0]),
    )
    members = tuple(_member(nodes[position], side) for position, side in keys)
    place = {key: index for index, key in enumerate(keys)}
    channels: list[tuple[tuple[int, int], ...]] = []
    blocks = defaultdict[Any, list[int]](list)
    reason: str | None = None
    ordered = sorted((component, layers) for layers, components in family for component in components)
    for component, layers in ordered:
        blocks[(layers, tuple(_constraints(nodes, component)))].append(len(channels))
        real = [item for item in component if nodes[item[0]].name is not None]
        channels.append(tuple(sorted((place[position, side], channel) for position, side, channel in real)))
        reason = reason or _reason(nodes, component, invalid, shared)
    producer = next(member.module for member in members if member.dimension != "in")
    if reason is None and len({len(block) for block in blocks.values()}) != 1:
        reason = "the groups or parts that it runs through are of unequal size"
    if reason is None and len(next(iter(blocks.values()))) == 1:
        reason = "its channels all depend on each other"
    return ChannelGroup(producer, members, tuple(channels), tuple(map(tuple, blocks.values()))), reason


def _member(entry: Node, side: str) -> Member:
    import torch

    layer = entry.node.module
    assert entry.name is not None
    if isinstance(layer, torch.nn.Parameter):
        axis: Dimension = str(entry.node.pruning_dim % layer.dim())  # type: ignore[assignment]
        return Member(entry.name, axis, entry.sizes[side])
    return Member(entry.name, "out" if side == "out" else "in", entry.sizes[side])


def _reason(nodes: list[Node], component: list[Item], invalid: set[Item], shared: dict[str, str]) -> str | None:
    """Why a coupled set of channels cannot be cut, or None."""
    for position, side, channel in component:
        entry = nodes[position]
        if not entry.node.outputs and side == "out":
            return "it is an output of the network"
        if (position, side, channel) in invalid:
            return "its channels do not line up with those of the layer after it"
        if entry.name is None:
            continue
        if entry.name in shared:
            return f"its weights are shared with {shared[entry.name]}"
        if not _can_be_cut(entry.node.module):
            return f"{entry.name} ({type(entry.node.module).__name__}) cannot be cut"
    return None


def _can_be_cut(layer: Any) -> bool:
    from torch import nn
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.conv import _ConvNd

    if isinstance(layer, _ConvNd):
        return layer.groups == 1 or layer.groups < layer.out_channels or layer.in_channels == layer.out_channels
    if isinstance(layer, nn.LayerNorm):
        return len(layer.normalized_shape) == 1
    return isinstance(layer, nn.Linear | _NormBase | nn.GroupNorm | nn.PReLU | nn.Embedding | nn.Parameter)


def _shared_parameters(module: nn.Module) -> dict[str, str]:
    """Layers whose parameters another layer holds too, and that other layer."""
    holders: dict[int, list[str]] = defaultdict(list)
    for name, layer in module.named_modules():
        for parameter in layer.parameters(recurse=False):
            holders[id(parameter)].append(name)
    return {
        name: next(other for other in names if other != name)
        for names in holders.values()
        if len(set(names)) > 1
        for name in names
    }
