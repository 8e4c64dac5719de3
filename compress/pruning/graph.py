"""Finds the channel groups of a network with torch-pruning's dependency graph.

torch-pruning traces the network and knows, edge by edge, which channel of one layer is which of the next. From these
edges the coupled channels are collected here as connected components, all at once and in the coordinates of the uncut
network, so that a plan can be made before anything is cut. What the trace gets wrong (a shuffle, a constant in the
code) is found by `compress.pruning.trial`, which cuts copies and compares.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from compress.pruning.groups import ChannelGraph, ChannelGroup, Dimension, Excluded, Member, exclude
from compress.pruning.tracing import dependency_graph

if TYPE_CHECKING:
    from torch import Tensor, nn

_LIMIT = 4
"""How many times the widest layer an operator between layers can be: a concatenation of the widest ones."""

SIDES = ("out", "in")
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

    @property
    def is_split(self) -> bool:
        return self.node.type.name == "SPLIT"

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


def _components(nodes: list[_Node]) -> tuple[list[list[Item]], set[Item]]:
    """Coupled items, and items that an edge of the graph sent out of a layer's range.

    Of the operators between the layers only splits and outputs are kept: the others have done their work.
    """
    import numpy as np

    # Where the trace is wrong, indices can grow without end around a cycle.
    limit = _LIMIT * max((size for entry in nodes for size in entry.sizes.values()), default=0)
    places = {
        (position, side): index for index, (position, side) in enumerate(itertools.product(range(len(nodes)), SIDES))
    }
    first, second, stray, seen = _walk(nodes, places, limit)
    used = [places[key] * limit + np.flatnonzero(channels) for key, channels in seen.items()]
    items = np.unique(np.concatenate(used))
    labels = _connected(len(items), np.searchsorted(items, first), np.searchsorted(items, second))
    keep = {
        (position, side)
        for position, entry in enumerate(nodes)
        for side in SIDES
        if entry.name is not None or not entry.node.outputs or entry.is_split
    }
    components: dict[int, list[Item]] = defaultdict(list)
    for key in sorted(keep & seen.keys()):
        channels = np.flatnonzero(seen[key])
        label_of = labels[np.searchsorted(items, places[key] * limit + channels)]
        for channel, label in zip(channels.tolist(), label_of.tolist(), strict=True):
            components[label].append((*key, channel))
    invalid = {(*key, channel) for key, channels in stray.items() for channel in channels}
    return list(components.values()), invalid


def _walk(
    nodes: list[_Node], places: dict[tuple[int, str], int], limit: int
) -> tuple[Any, Any, dict[tuple[int, str], set[int]], dict[tuple[int, str], Any]]:
    """Follows all channels of all layers along all edges.

    Gives the joined pairs (two arrays of item numbers, place * limit + channel), the channels that an edge sent out
    of range, and for each place which channels were met.
    """
    import numpy as np

    positions = {id(entry.node): position for position, entry in enumerate(nodes)}
    seen: dict[tuple[int, str], Any] = {}
    stray: dict[tuple[int, str], set[int]] = defaultdict(set)
    firsts, seconds, pending = [], [], []
    for position, entry in enumerate(nodes):
        for side, size in entry.sizes.items():
            seen[position, side] = np.arange(limit) < size
            pending.append((position, side, np.arange(size)))
    while pending:
        position, side, channels = pending.pop()
        for target, target_side, sources, indices in _edges(nodes[position], side, channels, positions, nodes):
            inside = (indices >= 0) & (indices < nodes[target].sizes.get(target_side, limit))
            stray[position, side].update(sources[~inside].tolist())
            sources, indices = sources[inside], indices[inside]
            firsts.append(places[position, side] * limit + sources)
            seconds.append(places[target, target_side] * limit + indices)
            met = seen.setdefault((target, target_side), np.zeros(limit, dtype=bool))
            fresh = np.unique(indices[~met[indices]])
            met[fresh] = True
            if len(fresh):
                pending.append((target, target_side, fresh))
    return np.concatenate(firsts), np.concatenate(seconds), stray, seen


def _edges(
    entry: _Node, side: str, channels: Any, positions: dict[int, int], nodes: list[_Node]
) -> list[tuple[int, str, Any, Any]]:
    """Where these channels of a node go: target, its side, channels here, channels there (arrays, in pairs)."""
    import numpy as np
    from torch_pruning._helpers import _HybridIndex

    edges = []
    function = entry.function(side)
    for dependency in entry.node.dependencies:
        if not dependency.is_triggered_by(function):
            continue
        sources = indices = channels
        mappings = [mapping for mapping in dependency.index_mapping if mapping is not None]
        if mappings:
            mapped = [_HybridIndex(idx=channel, root_idx=channel) for channel in channels.tolist()]
            for mapping in mappings:
                mapped = mapping(mapped)
            # Some mappings lose where an index came from: that coupling is unknown then, and the trial decides.
            pairs = [(index.root_idx, index.idx) for index in mapped if index.root_idx is not None]
            sources, indices = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        target = positions[id(dependency.target)]
        edges.append((target, nodes[target].side(dependency.handler), sources, indices))
    return edges


def _connected(count: int, first: Any, second: Any) -> Any:
    """The smallest item of each item's connected component, by hooking and pointer jumping."""
    import numpy as np

    labels = np.arange(count)
    while True:
        lower = np.minimum(labels[first], labels[second])
        np.minimum.at(labels, labels[first], lower)
        np.minimum.at(labels, labels[second], lower)
        while not np.array_equal(jumped := labels[labels], labels):
            labels = jumped
        if np.array_equal(labels[first], labels[second]):
            return labels


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


def _constraints(nodes: list[_Node], component: list[Item]) -> list[tuple[Any, int]]:
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
