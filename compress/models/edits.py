"""Cuts channels out of a network, one recorded edit at a time. The same code makes a cut and replays it on load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from compress.errors import StageError
from compress.models.architecture import Architecture, ChannelEdit
from compress.recipe.nearest import suggestion

if TYPE_CHECKING:
    from torch import Tensor, nn


def apply_edits(module: nn.Module, edits: Iterable[ChannelEdit]) -> None:
    """Makes all edits on the module, in order, in place. Raises StageError."""
    for edit in edits:
        apply_edit(module, edit)


def apply_edit(module: nn.Module, edit: ChannelEdit) -> None:
    """Keeps `edit.keep` along one dimension of one layer and updates the layer's attributes.

    Raises StageError when the module does not exist, is of a type that cannot be cut, or has fewer channels.
    """
    from torch import nn

    name, _, leaf = edit.module.rpartition(".")
    try:
        layer: Any = module.get_submodule(edit.module)
    except AttributeError:
        owner = _submodule(module, name, edit.module)
        layer = getattr(owner, leaf, None)
        if not isinstance(layer, nn.Parameter):
            raise _unknown(module, edit.module) from None
        setattr(owner, leaf, nn.Parameter(_kept(layer, int(edit.dimension), edit), layer.requires_grad))
        return
    _cut_layer(layer, edit)


def _submodule(module: nn.Module, path: str, shown: str) -> nn.Module:
    try:
        return module.get_submodule(path)
    except AttributeError:
        raise _unknown(module, shown) from None


def _unknown(module: nn.Module, path: str) -> StageError:
    names = [name for name, _ in module.named_modules() if name]
    return StageError(f"the network has no module '{path}'{suggestion(path, names)}")


def _cut_layer(layer: Any, edit: ChannelEdit) -> None:
    from torch import nn
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

    if isinstance(layer, _ConvNd):
        _cut_convolution(layer, edit, isinstance(layer, _ConvTransposeNd))
    elif isinstance(layer, nn.Linear):
        _cut_tensor(layer, "weight", 0 if edit.dimension == "out" else 1, edit)
        if edit.dimension == "out":
            _cut_tensor(layer, "bias", 0, edit)
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, _NormBase | nn.GroupNorm):
        for name in ("weight", "bias", "running_mean", "running_var"):
            _cut_tensor(layer, name, 0, edit)
        setattr(layer, "num_channels" if isinstance(layer, nn.GroupNorm) else "num_features", len(edit.keep))
    elif isinstance(layer, nn.LayerNorm):
        for name in ("weight", "bias"):
            _cut_tensor(layer, name, -1, edit)
        layer.normalized_shape = (*layer.normalized_shape[:-1], len(edit.keep))
    elif isinstance(layer, nn.PReLU):
        if layer.num_parameters > 1:
            _cut_tensor(layer, "weight", 0, edit)
            layer.num_parameters = len(edit.keep)
    elif isinstance(layer, nn.Embedding):
        _cut_tensor(layer, "weight", 1, edit)
        layer.embedding_dim = len(edit.keep)
    else:
        raise StageError(f"channels of '{edit.module}' ({type(layer).__name__}) cannot be cut")


def _cut_convolution(layer: Any, edit: ChannelEdit, transposed: bool) -> None:
    from torch import nn

    depthwise = layer.groups > 1 and layer.groups == layer.in_channels == layer.out_channels
    if depthwise:  # its one channel axis is input, output and group at once; weight (C, 1, ...)
        if edit.dimension == "out":
            _cut_tensor(layer, "weight", 0, edit)
            _cut_tensor(layer, "bias", 0, edit)
            layer.groups = layer.in_channels = layer.out_channels = len(edit.keep)
        return
    if edit.dimension == "out":
        _cut_tensor(layer, "bias", 0, edit)
    if layer.groups > 1:
        layer.weight = nn.Parameter(_kept_in_groups(layer, edit, transposed), layer.weight.requires_grad)
    else:
        _cut_tensor(layer, "weight", 0 if (edit.dimension == "out") != transposed else 1, edit)
    # The second axis of the weight counts the channels of one group.
    first, second = layer.weight.shape[0], layer.weight.shape[1] * layer.groups
    layer.in_channels, layer.out_channels = (first, second) if transposed else (second, first)


def _kept_in_groups(layer: Any, edit: ChannelEdit, transposed: bool) -> Tensor:
    """The weight of a grouped convolution with the same number of channels kept in each group."""
    import torch

    groups, channels = layer.groups, layer.out_channels if edit.dimension == "out" else layer.in_channels
    size = channels // groups
    by_group = [[index % size for index in edit.keep if index // size == group] for group in range(groups)]
    if len({len(kept) for kept in by_group}) != 1 or list(edit.keep) != sorted(edit.keep):
        raise StageError(f"cannot cut '{edit.module}' ({edit.dimension}): unequal channels in its {groups} groups")
    weight = layer.weight.detach()
    by_axes = weight.unflatten(0, (groups, -1))  # (groups, first axis of one group, second axis of one group, ...)
    axis = 0 if (edit.dimension == "out") != transposed else 1
    parts = [
        by_axes[group].index_select(axis, torch.tensor(kept, dtype=torch.long, device=weight.device))
        for group, kept in enumerate(by_group)
    ]
    return torch.cat(parts).contiguous()


def _cut_tensor(layer: Any, name: str, axis: int, edit: ChannelEdit) -> None:
    from torch import nn

    tensor = getattr(layer, name, None)
    if tensor is None:
        return
    kept = _kept(tensor, axis, edit)
    setattr(layer, name, nn.Parameter(kept, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else kept)


def _kept(tensor: Tensor, axis: int, edit: ChannelEdit) -> Tensor:
    import torch

    if not edit.keep or min(edit.keep) < 0 or max(edit.keep) >= tensor.shape[axis]:
        raise StageError(
            f"cannot keep {len(edit.keep)} channels of '{edit.module}' ({edit.dimension}): it has {tensor.shape[axis]}"
        )
    index = torch.tensor(edit.keep, dtype=torch.long, device=tensor.device)
    return tensor.detach().index_select(axis, index).contiguous()


def extended(architecture: Architecture, edits: Iterable[ChannelEdit]) -> Architecture:
    """The architecture after further edits."""
    return Architecture(architecture.builder, (*architecture.edits, *edits))
