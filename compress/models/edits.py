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
    """Keeps `edit.keep` along one channel axis of one layer and updates the layer's attributes.

    Raises StageError when the module does not exist, is of a type that cannot be cut, or has fewer channels.
    """
    from torch import nn

    layer = find_layer(module, edit.module)
    if isinstance(layer, nn.Parameter):
        path, _, name = edit.module.rpartition(".")
        _keep_in_tensor(module.get_submodule(path), name, int(edit.dimension), edit)
        return
    depthwise = is_depthwise(layer)
    for name, axis in channel_tensors(layer, edit):
        if is_grouped(layer) and name == "weight":
            _replace(layer, name, _keep_in_groups(layer, axis, edit))
        else:
            _keep_in_tensor(layer, name, axis, edit)
    _update_attributes(layer, len(edit.keep), depthwise)


def find_layer(module: nn.Module, path: str) -> Any:
    """The module or bare parameter at `path`. Raises StageError with the nearest path."""
    owner, _, name = path.rpartition(".")
    try:
        found = getattr(module.get_submodule(owner), name)
    except AttributeError:
        names = [name for name, _ in module.named_modules() if name]
        raise StageError(f"the network has no module '{path}'{suggestion(path, names)}") from None
    return found


def is_depthwise(layer: Any) -> bool:
    """One channel a group: its one channel axis is input, output and group at once."""
    return getattr(layer, "groups", 1) > 1 and layer.groups == layer.in_channels == layer.out_channels


def is_grouped(layer: Any) -> bool:
    return getattr(layer, "groups", 1) > 1 and not is_depthwise(layer)


def channel_tensors(layer: Any, edit: ChannelEdit) -> tuple[tuple[str, int], ...]:
    """The parameters and buffers of a layer that have the edit's channels, each with its axis."""
    from torch import nn
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

    out = edit.dimension == "out"
    if isinstance(layer, _ConvNd):
        transposed = isinstance(layer, _ConvTransposeNd) and not is_depthwise(layer)
        tensors = [("weight", 0 if out != transposed else 1), *([("bias", 0)] if out else [])]
    elif isinstance(layer, nn.Linear):
        tensors = [("weight", 0), ("bias", 0)] if out else [("weight", 1)]
    elif isinstance(layer, _NormBase | nn.GroupNorm):
        tensors = [(name, 0) for name in ("weight", "bias", "running_mean", "running_var")]
    elif isinstance(layer, nn.LayerNorm):
        tensors = [("weight", 0), ("bias", 0)]
    elif isinstance(layer, nn.PReLU):
        tensors = [("weight", 0)] if layer.num_parameters > 1 else []
    elif isinstance(layer, nn.Embedding):
        tensors = [("weight", 1)]
    else:
        raise StageError(f"channels of '{edit.module}' ({type(layer).__name__}) cannot be cut")
    return tuple((name, axis) for name, axis in tensors if getattr(layer, name, None) is not None)


def _update_attributes(layer: Any, channels: int, depthwise: bool) -> None:
    """Makes the sizes that a layer notes about itself those of its parameters."""
    from torch import nn
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

    if isinstance(layer, _ConvNd) and depthwise:
        layer.groups = layer.in_channels = layer.out_channels = channels
    elif isinstance(layer, _ConvNd):  # the second axis of the weight counts the channels of one group
        first, second = layer.weight.shape[0], layer.weight.shape[1] * layer.groups
        transposed = isinstance(layer, _ConvTransposeNd)
        layer.in_channels, layer.out_channels = (first, second) if transposed else (second, first)
    elif isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, _NormBase):
        layer.num_features = channels
    elif isinstance(layer, nn.GroupNorm):
        layer.num_channels = channels
    elif isinstance(layer, nn.LayerNorm):
        layer.normalized_shape = (channels,)
    elif isinstance(layer, nn.PReLU) and layer.num_parameters > 1:
        layer.num_parameters = channels
    elif isinstance(layer, nn.Embedding):
        layer.embedding_dim = channels


def _keep_in_tensor(owner: Any, name: str, axis: int, edit: ChannelEdit) -> None:
    import torch

    tensor = getattr(owner, name)
    _check(edit, tensor.shape[axis])
    index = torch.tensor(edit.keep, dtype=torch.long, device=tensor.device)
    _replace(owner, name, tensor.detach().index_select(axis, index).contiguous())


def _replace(owner: Any, name: str, kept: Tensor) -> None:
    from torch import nn

    tensor = getattr(owner, name)
    setattr(owner, name, nn.Parameter(kept, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else kept)


def _check(edit: ChannelEdit, channels: int) -> None:
    if not edit.keep or min(edit.keep) < 0 or max(edit.keep) >= channels or len(set(edit.keep)) != len(edit.keep):
        raise StageError(
            f"cannot keep {len(edit.keep)} channels of '{edit.module}' ({edit.dimension}), it has {channels}"
        )


def _keep_in_groups(layer: Any, axis: int, edit: ChannelEdit) -> Tensor:
    """The weight of a grouped convolution with the same number of channels kept in each group."""
    import torch

    channels = layer.out_channels if edit.dimension == "out" else layer.in_channels
    _check(edit, channels)
    size = channels // layer.groups
    kept = [[index % size for index in edit.keep if index // size == group] for group in range(layer.groups)]
    if len({len(indices) for indices in kept}) != 1 or list(edit.keep) != sorted(edit.keep):
        raise StageError(
            f"cannot cut '{edit.module}' ({edit.dimension}): unequal channels in its {layer.groups} groups"
        )
    weight = layer.weight.detach()
    # (groups, first axis of one group, second axis of one group, ...)
    parts = [
        group.index_select(axis, torch.tensor(indices, dtype=torch.long, device=weight.device))
        for group, indices in zip(weight.unflatten(0, (layer.groups, -1)), kept, strict=True)
    ]
    return torch.cat(parts).contiguous()


def extended(architecture: Architecture, edits: Iterable[ChannelEdit]) -> Architecture:
    """The architecture after further edits."""
    return Architecture(architecture.builder, (*architecture.edits, *edits))
