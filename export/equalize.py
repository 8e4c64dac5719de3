"""Cross-layer equalization: evens out the ranges of channels between two layers without changing what is computed.

After Nagel et al. 2019 ("Data-Free Quantization Through Weight Equalization and Bias Correction"). Between a layer and
the only one that reads it, a positive factor for each channel can be moved: ReLU, max pooling and means let it pass.
Activations that stop at a fixed value (ReLU6) don't, and end a pair.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import fx, nn

from export.points import NotTraceableError, find_points, kind

_PASS = {
    nn.ReLU,
    F.relu,
    torch.relu,
    "relu",
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.Dropout,
    nn.Dropout2d,
}
_PASS |= {F.max_pool2d, torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, "mean", torch.mean}
_FLATTEN = {nn.Flatten, torch.flatten, "flatten"}
_ROUNDS = 20
_ENOUGH = 1e-3
_SMALLEST = 1e-8


@dataclass(frozen=True)
class Pair:
    """`second` reads what `first` gives, and nothing else does (module paths)."""

    first: str
    second: str


def find_pairs(module: nn.Module, sample: torch.Tensor) -> tuple[Pair, ...]:
    """The pairs of a network with folded normalizations; empty when its code cannot be traced."""
    try:
        graph = find_points(module, sample).graph
    except NotTraceableError:
        return ()
    modules = dict(graph.named_modules())
    calls = Counter(str(node.target) for node in graph.graph.nodes if node.op == "call_module")
    pairs = []
    for node in graph.graph.nodes:
        if node.op != "call_module" or type(modules[str(node.target)]) is not nn.Conv2d:
            continue
        reader = _only_reader(node, modules)
        if reader is None or calls[str(node.target)] > 1 or calls[str(reader.target)] > 1:
            continue
        if _fits(modules[str(node.target)], modules[str(reader.target)]):
            pairs.append(Pair(str(node.target), str(reader.target)))
    return tuple(pairs)


def equalize(module: nn.Module, pairs: tuple[Pair, ...]) -> nn.Module:
    """A copy in which, for every pair, each channel has the same largest weight where it is made and where it is read.

    Chains are gone through until nothing moves. The original is left alone.
    """
    equal = copy.deepcopy(module)
    with torch.no_grad():
        for _ in range(_ROUNDS):
            moved = [_balance(equal.get_submodule(pair.first), equal.get_submodule(pair.second)) for pair in pairs]
            if max(moved, default=0.0) < _ENOUGH:
                break
    return equal


def _balance(first: nn.Module, second: nn.Module) -> float:
    """Moves the factors of one pair; gives how far the largest was from 1."""
    assert isinstance(first, nn.Conv2d)
    assert isinstance(second, nn.Conv2d | nn.Linear)
    made = first.weight.flatten(1).abs().amax(1)
    read = _read_axis(second).abs().flatten(1).amax(1)
    alive = (made > _SMALLEST) & (read > _SMALLEST)
    factor = torch.where(alive, torch.sqrt(made / read.clamp(min=_SMALLEST)), torch.ones_like(made))
    first.weight /= factor.reshape(-1, 1, 1, 1)
    if first.bias is not None:
        first.bias /= factor
    _read_axis(second).mul_(factor.reshape(-1, *(1,) * (second.weight.ndim - 1)))
    return float((factor - 1).abs().max())


def _read_axis(layer: nn.Conv2d | nn.Linear) -> torch.Tensor:
    """A view of the weight with the channels that are read first; a depthwise layer reads the ones that it gives."""
    depthwise = isinstance(layer, nn.Conv2d) and layer.groups > 1
    return layer.weight if depthwise else layer.weight.transpose(0, 1)


def _only_reader(node: fx.Node, modules: dict[str, nn.Module]) -> fx.Node | None:
    """The layer that a value ends in by way of operators that let factors pass; None where it goes elsewhere too."""
    spatial = True
    while len(node.users) == 1:
        (user,) = node.users
        what = kind(user, modules)
        if user.op == "call_module" and what in (nn.Conv2d, nn.Linear):
            return user
        if what in _FLATTEN and not spatial:
            node = user
            continue
        if what not in _PASS or user.args[0] is not node:
            return None
        spatial = spatial and not _removes_space(user, what, modules)
        node = user
    return None


def _removes_space(node: fx.Node, what: object, modules: dict[str, nn.Module]) -> bool:
    if what in ("mean", torch.mean):
        return True
    layer = modules.get(str(node.target)) if node.op == "call_module" else None
    return isinstance(layer, nn.AdaptiveAvgPool2d) and layer.output_size in (1, (1, 1))


def _fits(first: nn.Module, second: nn.Module) -> bool:
    """Channels stay apart: full or depthwise layers, and as many channels read as are given."""
    assert isinstance(first, nn.Conv2d)
    if isinstance(second, nn.Linear):
        return second.in_features == first.out_channels
    assert isinstance(second, nn.Conv2d)
    depthwise = second.groups == second.in_channels == second.out_channels
    return second.in_channels == first.out_channels and (second.groups == 1 or depthwise)
