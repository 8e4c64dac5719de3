"""Finds the channel groups of a network with torch-pruning's dependency graph.

torch-pruning traces the network and knows, edge by edge, which channel of one layer is which of the next. From these
edges the coupled channels are collected here as connected components, all at once and in the coordinates of the uncut
network, so that a plan can be made before anything is cut. What the trace gets wrong (a shuffle, a constant in the
code) is found by `compress.pruning.trial`, which cuts copies and compares.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compress.pruning.groups import ChannelGraph, ChannelGroup, Dimension, Excluded, Member, exclude
from compress.pruning.tracing import dependency_graph

if TYPE_CHECKING:
    from torch import Tensor, nn

_LIMIT = 4
"""How many times the widest layer an operator between layers can be: a concatenation of the widest ones."""

Item = tuple[int, str, int]
"""Node, side (`out` or `in`), channel."""


@dataclass
class _Node:
    """One node of torch-pruning's graph.

    `name` is None and `sizes` are empty for operators that are no layer (add, concat, split, ...).
    """

    node: Any
    name: str | None
    pruner: Any
    sizes: dict[str, int]

    def side(self, function: Any) -> str:
        """Layers with one channel axis (normalization, depthwise) have the same function for both sides."""
        return "out" if function == self.pruner.prune_out_channels else "in"

    def function(self, side: str) -> Any:
        return self.pruner.prune_out_channels if side == "out" else self.pruner.prune_in_channels


def trace(module: nn.Module, inputs: Tensor) -> ChannelGraph:
    """The channel groups of `module`, which is left as it was. `inputs` (1, C, H, W).

    Raises StageError when the network cannot be traced.
    """
    traced = copy.deepcopy(module).eval().requires_grad_(True)
    nodes = _nodes(traced, inputs)
    components, invalid = _components(nodes)
    return _group(traced, nodes, components, invalid)


def _nodes(module: nn.Module, inputs: Tensor) -> list[_Node]:
    import torch

    graph = dependency_graph(module, inputs)
    layers = {layer: name for name, layer in module.named_modules()}
    parameters = {id(parameter): name for name, parameter in module.named_parameters()}
    nodes = []
    for node in graph.module2node.values():
        pruner, layer = graph.get_pruner_of_module(node.module), node.module
        bare = isinstance(layer, torch.nn.Parameter)
        name = parameters.get(id(layer)) if bare else layers.get(layer)
        if bare:
            pruner.pruning_dim = node.pruning_dim  # one pruner object serves all bare parameters
        sizes = _sizes(layer, pruner) if name is not None else {}
        nodes.append(_Node(node, name if sizes else None, pruner, sizes))
    return nodes


def _sizes(layer: Any, pruner: Any) -> dict[str, int]:
    """Channels on each side; empty for layers without channels of their own (activations)."""
    sizes = {"out": pruner.get_out_channels(layer)}
    if pruner.prune_in_channels != pruner.prune_out_channels:
        sizes["in"] = pruner.get_in_channels(layer)
    return {side: size for side, size in sizes.items() if size is not None}


class _Union:
    """Disjoint sets of items."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, item: Any) -> Any:
        parent = self.parent.setdefault(item, item)
        while parent != self.parent[parent]:
            self.parent[parent] = self.parent[self.parent[parent]]
            parent = self.parent[parent]
        self.parent[item] = parent
        return parent

    def join(self, first: Any, second: Any) -> None:
        self.parent[self.find(second)] = self.find(first)


def _components(nodes: list[_Node]) -> tuple[list[list[Item]], set[Item]]:
    """Coupled items, and items that an edge of the graph sent out of a layer's range."""
    positions = {id(entry.node): position for position, entry in enumerate(nodes)}
    union, seen, invalid = _Union(), set[Item](), set[Item]()
    pending = [
        (position, side, list(range(size)))
        for position, entry in enumerate(nodes)
        if entry.name is not None
        for side, size in entry.sizes.items()
    ]
    seen.update((position, side, channel) for position, side, channels in pending for channel in channels)
    # Where the trace is wrong, indices can grow without end around a cycle.
    limit = _LIMIT * max((size for entry in nodes for size in entry.sizes.values()), default=0)
    while pending:
        position, side, channels = pending.pop()
        for target, target_side, pairs in _edges(nodes[position], side, channels, positions, nodes):
            fresh = []
            for source, channel in pairs:
                item = (target, target_side, channel)
                if not 0 <= channel < nodes[target].sizes.get(target_side, limit):
                    invalid.add((position, side, source))
                    continue
                union.join((position, side, source), item)
                if item not in seen:
                    seen.add(item)
                    fresh.append(channel)
            if fresh:
                pending.append((target, target_side, fresh))
    components: dict[Any, list[Item]] = defaultdict(list)
    for item in sorted(seen):
        components[union.find(item)].append(item)
    return list(components.values()), invalid


def _edges(
    entry: _Node, side: str, channels: list[int], positions: dict[int, int], nodes: list[_Node]
) -> list[tuple[int, str, list[tuple[int, int]]]]:
    """Where these channels of a node go: target, its side, (channel here, channel there)."""
    from torch_pruning._helpers import _HybridIndex

    edges = []
    function = entry.function(side)
    for dependency in entry.node.dependencies:
        if not dependency.is_triggered_by(function):
            continue
        indices = [_HybridIndex(idx=channel, root_idx=channel) for channel in channels]
        for mapping in dependency.index_mapping:
            indices = mapping(indices) if mapping is not None else indices
        target = positions[id(dependency.target)]
        # Some mappings lose where an index came from: without that the coupling is not known, and the trial decides.
        pairs = [(index.root_idx, index.idx) for index in indices if index.root_idx is not None]
        edges.append((target, nodes[target].side(dependency.handler), pairs))
    return edges


def _group(module: nn.Module, nodes: list[_Node], components: list[list[Item]], invalid: set[Item]) -> ChannelGraph:
    """Collects components that run through the same layers into groups, and joins groups that share a constraint."""
    order = {name: position for position, (name, _) in enumerate(module.named_modules())}
    shared = _shared_parameters(module)
    union = _Union()
    by_layers: dict[Any, list[list[Item]]] = defaultdict(list)
    for component in components:
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
    groups, excluded = [], list[Excluded]()
    for family in families.values():
        group, reason = _build_group(nodes, [(layers, by_layers[layers]) for layers in family], invalid, shared, order)
        if reason:
            excluded.append(exclude(group, reason))
        else:
            groups.append(group)
    position = lambda entry: order.get(entry.name, len(order))  # noqa: E731
    return ChannelGraph(tuple(sorted(groups, key=position)), tuple(sorted(excluded, key=position)))


def _constraints(nodes: list[_Node], component: list[Item]) -> list[tuple[Any, int]]:
    """Grouped layers and splits that a component runs through, and the block of each that it is in."""
    import torch_pruning

    found = set()
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
    nodes: list[_Node],
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
    channels, blocks = [], defaultdict[Any, list[int]](list)
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
    return ChannelGroup(producer, members, tuple(channels), tuple(map(tuple, blocks.values()))), reason


def _member(entry: _Node, side: str) -> Member:
    import torch

    layer = entry.node.module
    assert entry.name is not None
    if isinstance(layer, torch.nn.Parameter):
        axis: Dimension = str(entry.node.pruning_dim % layer.dim())  # type: ignore[assignment]
        return Member(entry.name, axis, entry.sizes[side])
    return Member(entry.name, "out" if side == "out" else "in", entry.sizes[side])


def _reason(nodes: list[_Node], component: list[Item], invalid: set[Item], shared: dict[str, str]) -> str | None:
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
