"""Penalties that make channels small before they are cut, so that less is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from compress.errors import StageError
from compress.models.architecture import ChannelEdit
from compress.models.edits import channel_tensors, find_layer, is_grouped
from compress.pruning.groups import ChannelGraph, ChannelGroup, Member
from compress.pruning.importance import by_channel

if TYPE_CHECKING:
    from torch import Tensor, nn

Regularizer = Literal["group_lasso", "bn_l1"]
_EPSILON = 1e-12
"""Under the root: its gradient at zero is not finite."""


def sparsity_penalty(
    module: nn.Module, graph: ChannelGraph, regularizer: Regularizer, strength: float
) -> Callable[[nn.Module], Tensor | None]:
    """A term for the loss of `compress.training.loop.train`.

    `group_lasso`: sum over channels of the norm of all weights that go with the channel (Wen et al. 2016; over coupled
    layers as in DepGraph, Fang et al. 2023). `bn_l1`: sum of the absolute scales of batch normalizations (Liu et al.
    2017). Raises StageError when the network has nothing that could be penalized.
    """
    build = _group_lasso if regularizer == "group_lasso" else _scales
    penalties = build(module, graph)
    if not penalties:
        wanted = "channels that can be cut" if regularizer == "group_lasso" else "batch normalizations to be cut"
        raise StageError(f"sparsity ({regularizer}) has nothing to work on: the network has no {wanted}")

    def penalty(trained: nn.Module) -> Tensor | None:
        total = penalties[0](trained)
        for term in penalties[1:]:
            total = total + term(trained)
        return strength * total

    return penalty


Term = Callable[["nn.Module"], "Tensor"]


def _scales(module: nn.Module, graph: ChannelGraph) -> list[Term]:
    from torch.nn.modules.batchnorm import _BatchNorm

    paths = {member.module for group in graph.groups for member in group.members}
    names = [
        name
        for name, layer in module.named_modules()
        if name in paths and isinstance(layer, _BatchNorm) and layer.affine
    ]

    def term(name: str) -> Term:
        return lambda trained: trained.get_submodule(name).weight.abs().sum()  # type: ignore[operator]

    return [term(name) for name in names]


def _group_lasso(module: nn.Module, graph: ChannelGraph) -> list[Term]:
    return [_group_norms(module, group) for group in graph.groups]


def _group_norms(module: nn.Module, group: ChannelGroup) -> Term:
    import torch
    from torch.nn.modules.conv import _ConvNd

    pairs: list[tuple[Member, Tensor, Tensor]] = []
    for position, member in enumerate(group.members):
        if not isinstance(find_layer(module, member.module), _ConvNd | torch.nn.Linear):
            continue
        items = [
            (channel, index) for channel, own in enumerate(group.channels) for place, index in own if place == position
        ]
        channels, indices = torch.tensor(items).T
        pairs.append((member, channels, indices))

    def term(trained: nn.Module) -> Tensor:
        totals: Any = None
        for member, channels, indices in pairs:
            squares = _weight_by_channel(trained, member).square().sum(1)
            if totals is None:
                totals = squares.new_zeros(len(group))
            totals = totals.index_add(0, channels.to(squares.device), squares[indices.to(squares.device)])
        return (totals + _EPSILON).sqrt().sum()

    return term


def _weight_by_channel(module: nn.Module, member: Member) -> Tensor:
    layer = find_layer(module, member.module)
    _, axis = channel_tensors(layer, ChannelEdit(member.module, member.dimension, ()))[0]
    return by_channel(layer.weight, axis, layer.groups if is_grouped(layer) else 1)
