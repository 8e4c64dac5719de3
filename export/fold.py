"""Folds batch normalization into the layer before it, before anything is traced.

Converters fold it too, but trace every one of its operators several times first: a ResNet-18 converts in two thirds of
the time when it is folded here. The layer keeps its name, the normalization becomes an identity, so module paths stay.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

_CONVOLUTIONS: dict[type[nn.Module], tuple[type[nn.Module], bool]] = {
    nn.Conv1d: (nn.BatchNorm1d, False),
    nn.Conv2d: (nn.BatchNorm2d, False),
    nn.Conv3d: (nn.BatchNorm3d, False),
    nn.ConvTranspose1d: (nn.BatchNorm1d, True),
    nn.ConvTranspose2d: (nn.BatchNorm2d, True),
    nn.ConvTranspose3d: (nn.BatchNorm3d, True),
}


@dataclass(frozen=True)
class Fold:
    """`normalization` (a module path) can go into `layer`: nothing else reads what the layer gives."""

    layer: str
    normalization: str


def find_folds(module: nn.Module) -> tuple[Fold, ...]:
    """The folds that leave the module's function as it is. Empty when its code cannot be traced symbolically."""
    try:
        graph = fx.Tracer().trace(module)
    except Exception:  # user code may raise anything when it is fed symbols; then nothing is folded
        return ()
    modules = dict(module.named_modules())
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    owners = Counter(id(parameter) for layer in modules.values() for parameter in layer._parameters.values())
    names = Counter(id(layer) for _, layer in module.named_modules(remove_duplicate=False))
    folds = []
    for node in graph.nodes:
        source = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(source, fx.Node) or source.op != "call_module" or len(source.users) != 1:
            continue
        layer, normalization = modules[str(source.target)], modules[str(node.target)]
        alone = all(calls[user.target] == 1 for user in (source, node))
        alone = alone and all(names[id(part)] == 1 for part in (layer, normalization))
        alone = alone and all(owners[id(parameter)] == 1 for parameter in layer.parameters())
        if alone and _foldable(layer, normalization):
            folds.append(Fold(str(source.target), str(node.target)))
    return tuple(folds)


def fold(module: nn.Module, folds: tuple[Fold, ...]) -> nn.Module:
    """A copy of the module with the folds done; the original is left alone."""
    folded = copy.deepcopy(module)
    for step in folds:
        layer, normalization = folded.get_submodule(step.layer), folded.get_submodule(step.normalization)
        _replace(folded, step.layer, _fused(layer, normalization))
        _replace(folded, step.normalization, nn.Identity())
    return folded.eval().requires_grad_(False)


def same_function(module: nn.Module, other: nn.Module, sample: torch.Tensor, tolerance: float = 1e-4) -> bool:
    """True when both give the same outputs for `sample`, within `tolerance` of the largest value."""
    with torch.no_grad():
        first, second = module(sample), other(sample)
    pairs = zip(first, second, strict=True) if isinstance(first, tuple | list) else ((first, second),)
    return all(float((a - b).abs().max()) <= tolerance * float(a.abs().max()) for a, b in pairs)


def _foldable(layer: nn.Module, normalization: nn.Module) -> bool:
    """Exactly the library's layers, in evaluation mode, without hooks or parametrizations that fusing would lose."""
    kind, _ = _CONVOLUTIONS.get(type(layer), (None, False))
    if kind is not type(normalization):
        return False
    hooks = any(part._forward_hooks or part._forward_pre_hooks for part in (layer, normalization))
    return not hooks and not normalization.training and getattr(normalization, "running_mean", None) is not None


def _fused(layer: nn.Module, normalization: nn.Module) -> nn.Module:
    _, transpose = _CONVOLUTIONS[type(layer)]
    return fuse_conv_bn_eval(layer, normalization, transpose)  # type: ignore[type-var, arg-type]


def _replace(module: nn.Module, path: str, part: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, part)
