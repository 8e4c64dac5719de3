"""Where the INT8 kernels of both formats round: the activations of a network that a file stores as 8-bit numbers.

Training with fake quantization puts its rounding at these points; conversion finds the same points again and gives
each tensor of the file the scale that was learned for it. Both see the same network (normalization folded), so the
names, which are those of the symbolic trace, are the same. What the kernels do decides: an activation function right
behind a layer is part of it, pooling and reshaping keep the scale of what they read, a concatenation has one scale
for all its parts.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import fx, nn

FIXED_SIGMOID = (1 / 256, 0)
"""Scale and zero point (of uint8) that the kernels of sigmoid and softmax have built in."""

_FUSED: set[Any] = {nn.ReLU, nn.ReLU6, F.relu, F.relu6, torch.relu, torch.relu_, "relu", "relu_"}
# Written out, it begins with an addition that converters put into the bias of the layer.
_FUSED |= {nn.Hardsigmoid, F.hardsigmoid}
_FUSING: set[Any] = {nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.BatchNorm2d, F.conv2d, F.linear}
_FUSING |= {operator.add, operator.iadd, operator.mul, torch.add, torch.mul, "add", "add_", "mul", "mul_"}
_KEEP: set[Any] = {nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.Flatten, nn.Unflatten, nn.Identity, nn.PixelShuffle}
_KEEP |= {nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.ChannelShuffle, nn.ZeroPad2d}
_KEEP |= {F.max_pool2d, torch.max_pool2d, F.dropout, F.pad, torch.flatten, torch.reshape, torch.permute}
_KEEP |= {torch.transpose, torch.squeeze, torch.unsqueeze, torch.chunk, torch.split, operator.getitem, getattr}
_KEEP |= {"view", "reshape", "flatten", "permute", "transpose", "contiguous", "squeeze", "unsqueeze", "chunk", "split"}
_KEEP |= {"detach", "expand", "size", "dim"}
_AVERAGE: set[Any] = {nn.AvgPool2d, F.avg_pool2d}
_CONCAT: set[Any] = {torch.cat, torch.concat, torch.concatenate}
_SIGMOID: set[Any] = {nn.Sigmoid, torch.sigmoid, F.sigmoid, "sigmoid", nn.Softmax, F.softmax, torch.softmax, "softmax"}
_LEAVES = {"StochasticDepth"}
"""Modules by name that have no layers inside and behave differently in training: kept whole."""


@dataclass(frozen=True)
class Point:
    """`group` names the first of the points that share one scale. `observed`: its own values count for that scale."""

    name: str
    group: str
    observed: bool = True
    fixed: tuple[float, int] | None = None


@dataclass(frozen=True)
class Traced:
    """`graph` computes what the network does; `reads` names the point whose scale each node's value has."""

    graph: fx.GraphModule
    points: tuple[Point, ...]
    reads: dict[str, str]


class NotTraceableError(Exception):
    """The network's code cannot be followed without data. The message is the cause."""


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m).__name__ in _LEAVES or super().is_leaf_module(m, module_qualified_name)


def find_points(module: nn.Module, sample: torch.Tensor) -> Traced:
    """Traces a network in evaluation mode; `sample` (1, C, H, W) tells which values are activations.

    Raises NotTraceableError for code that depends on data.
    """
    tracer = _Tracer()
    try:
        graph = fx.GraphModule(module, tracer.trace(module))
        _drop_identities(graph)
        values = run(graph, sample)
    except Exception as error:  # user code may raise anything when it is fed symbols
        raise NotTraceableError(str(error).strip().splitlines()[0] if str(error).strip() else repr(error)) from error
    return _walk(graph, {name for name, value in values.items() if _is_activation(value)})


def run(graph: fx.GraphModule, sample: torch.Tensor) -> dict[str, Any]:
    """What every node of the graph gives for `sample`, by name."""
    values: dict[str, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            values[n.name] = super().run_node(n)
            return values[n.name]

    with torch.no_grad():
        Recorder(graph).run(sample)
    return values


def point_values(traced: Traced, samples: Sequence[NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """The float values (N, ...) of every point for samples (C, H, W), one at a time."""
    collected: dict[str, list[NDArray[np.float32]]] = {point.name: [] for point in traced.points}
    for sample in samples:
        values = run(traced.graph, torch.from_numpy(np.array(sample[None])))
        for name, parts in collected.items():
            parts.append(values[name].numpy()[0])
    return {name: np.stack(parts) for name, parts in collected.items()}


def kind(node: fx.Node, modules: dict[str, nn.Module]) -> Any:
    """What a node calls: a type of module, a function, or the name of a method."""
    return type(modules[str(node.target)]) if node.op == "call_module" else node.target


def _walk(graph: fx.GraphModule, activations: set[str]) -> Traced:
    modules = dict(graph.named_modules())
    reads: dict[str, str] = {}
    points: dict[str, Point] = {}
    groups: dict[str, str] = {}
    for node in graph.graph.nodes:
        sources = [reads[source.name] for source in node.all_input_nodes if source.name in reads]
        what = kind(node, modules)
        if node.op in ("get_attr", "output") or (not sources and node.op != "placeholder"):
            continue
        if what in _KEEP:
            reads[node.name] = sources[0]
            continue
        if node.name not in activations:
            continue
        reads[node.name] = node.name
        if _continues(node, modules):
            continue  # the activation function that follows is computed before anything is rounded
        average = what in _AVERAGE or (type(what) is type and _pools_to_more_than_one(node, modules))
        points[node.name] = Point(node.name, node.name, not average, FIXED_SIGMOID if what in _SIGMOID else None)
        groups[node.name] = node.name
        if average or what in _CONCAT:
            for source in sources:
                _join(groups, node.name, source)
    first: dict[str, str] = {}
    for name in points:
        first.setdefault(_root(groups, name), name)
    made = tuple(Point(name, first[_root(groups, name)], point.observed, point.fixed) for name, point in points.items())
    return Traced(graph, made, reads)


def _continues(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    users = list(node.users)
    return len(users) == 1 and kind(node, modules) in _FUSING and kind(users[0], modules) in _FUSED


def _pools_to_more_than_one(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Global pooling is a mean, with a scale of its own; pooling to a grid is an average pooling."""
    layer = modules.get(str(node.target)) if node.op == "call_module" else None
    return isinstance(layer, nn.AdaptiveAvgPool2d) and layer.output_size not in (1, (1, 1))


def _is_activation(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim > 1


def _join(groups: dict[str, str], one: str, other: str) -> None:
    if other in groups:
        groups[_root(groups, one)] = _root(groups, other)


def _root(groups: dict[str, str], name: str) -> str:
    while groups[name] != name:
        name = groups[name]
    return name


def _drop_identities(graph: fx.GraphModule) -> None:
    """Folded normalizations leave identities behind, which would stand between a layer and its activation."""
    modules = dict(graph.named_modules())
    for node in list(graph.graph.nodes):
        if node.op == "call_module" and type(modules[str(node.target)]) is nn.Identity:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()
