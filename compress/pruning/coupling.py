"""Which channels of which layers are coupled, as connected components over torch-pruning's dependency graph.

torch-pruning traces a network and knows, edge by edge, which channel of one layer is which of the next. All edges are
followed here at once, in the coordinates of the uncut network.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compress.pruning.tracing import dependency_graph

if TYPE_CHECKING:
    from torch import Tensor, nn

_LIMIT = 4
"""How many times the widest layer an operator between layers can be: a concatenation of the widest ones."""

SIDES = ("out", "in")
Item = tuple[int, str, int]
"""Node, side (`out` or `in`), channel."""


@dataclass
class Node:
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


def read_nodes(module: nn.Module, inputs: Tensor) -> list[Node]:
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
        nodes.append(Node(node, name if sizes else None, pruner, sizes))
    return nodes


def _sizes(layer: Any, pruner: Any) -> dict[str, int]:
    """Channels on each side; empty for layers without channels of their own (activations)."""
    sizes = {"out": pruner.get_out_channels(layer)}
    if pruner.prune_in_channels != pruner.prune_out_channels:
        sizes["in"] = pruner.get_in_channels(layer)
    return {side: size for side, size in sizes.items() if size is not None}


def components(nodes: list[Node]) -> tuple[list[list[Item]], set[Item]]:
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
    items = np.unique(np.concatenate([np.empty(0, np.int64), *used]))
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
    nodes: list[Node], places: dict[tuple[int, str], int], limit: int
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
    none = [np.empty(0, np.int64)]
    return np.concatenate(none + firsts), np.concatenate(none + seconds), stray, seen


def _edges(
    entry: Node, side: str, channels: Any, positions: dict[int, int], nodes: list[Node]
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
