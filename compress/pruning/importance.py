"""How much a channel matters. All scores are larger for channels that should stay."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from compress.errors import StageError
from compress.models.architecture import ChannelEdit
from compress.models.edits import channel_tensors, find_layer, is_grouped
from compress.pruning.groups import ChannelGraph, ChannelGroup, Member, exclude
from compress.tasks.protocol import Batch
from compress.training.pointwise import strides_by_slicing

if TYPE_CHECKING:
    from torch import Tensor, nn

Importance = Literal["l1", "l2", "bn-scale", "taylor", "random"]
Scores = Mapping[str, tuple[float, ...]]
"""By group name, one score for each of its channels."""

Loss = Callable[[Any, Any], "Tensor"]


def magnitude_scores(module: nn.Module, graph: ChannelGraph, power: Literal[1, 2]) -> Scores:
    """Mean absolute (1) or root mean square (2) weight of a channel, over all layers that it is coupled to.

    Each layer is divided by its own mean over the group first, so that none drowns the others (Fang et al. 2023,
    "DepGraph"); thereby the scores of a group have mean 1, and groups can be compared.
    """

    from torch import nn

    def vector(member: Member) -> Tensor | None:
        layer = find_layer(module, member.module)
        slices = _slices(layer, member)
        if not slices or slices[0] is None or isinstance(layer, nn.PReLU):  # a slope says nothing about importance
            return None
        return slices[0].abs().mean(1) if power == 1 else slices[0].square().mean(1).sqrt()

    return {group.name: _mean_over_members(group, vector, normalized=True) for group in graph.groups}


def scale_scores(module: nn.Module, graph: ChannelGraph) -> tuple[Scores, ChannelGraph]:
    """Mean absolute scale of the batch normalizations of a channel (Liu et al. 2017, "Network Slimming").

    Groups without one have no such score: the graph that comes back excludes them.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    def vector(member: Member) -> Tensor | None:
        layer = find_layer(module, member.module)
        has_scale = isinstance(layer, _BatchNorm) and layer.affine
        return layer.weight.detach().abs() if has_scale else None

    scores = {group.name: _mean_over_members(group, vector, normalized=False) for group in graph.groups}
    without = tuple(group for group in graph.groups if not scores[group.name])
    excluded = tuple(exclude(group, "no batch normalization that bn-scale could read") for group in without)
    groups = tuple(group for group in graph.groups if group not in without)
    return {group.name: scores[group.name] for group in groups}, ChannelGraph(groups, (*graph.excluded, *excluded))


def random_scores(graph: ChannelGraph, seed: int) -> Scores:
    """Uniform draws, the same for the same seed and names."""
    scores = {}
    for group in graph.groups:
        generator = random.Random(f"{seed} {group.name}")
        scores[group.name] = tuple(generator.random() for _ in group.channels)
    return scores


def taylor_scores(module: nn.Module, graph: ChannelGraph, batches: Iterable[Batch], loss: Loss, device: str) -> Scores:
    """Squared first-order change of the loss when a channel is removed, summed over batches (Molchanov et al. 2019).

    Read at the normalization that follows a layer, or at the layer itself where none does; coupled channels add up.
    The module is left in evaluation mode, without gradients, on the CPU. Raises StageError without a batch.
    """
    totals: dict[Member, Tensor] = {}
    members = {group.name: _gates(module, group) for group in graph.groups}
    module.eval().to(device)
    with strides_by_slicing(module):
        for batch in batches:
            module.zero_grad(set_to_none=True)
            loss(module(batch.inputs.to(device)), batch.targets.to(device)).backward()
            for member in {member for gates in members.values() for member in gates}:
                change = _first_order(find_layer(module, member.module), member).square().cpu()
                totals[member] = totals[member] + change if member in totals else change
    module.zero_grad(set_to_none=True)
    module.cpu()
    if graph.groups and not totals:
        raise StageError("taylor importance needs at least one batch")

    def score(group: ChannelGroup) -> tuple[float, ...]:
        gates = members[group.name]
        positions = {position for position, member in enumerate(group.members) if member in gates}
        return tuple(
            sum(float(totals[group.members[member]][index]) for member, index in channel if member in positions)
            for channel in group.channels
        )

    return {group.name: score(group) for group in graph.groups}


def _gates(module: nn.Module, group: ChannelGroup) -> set[Member]:
    from torch.nn.modules.batchnorm import _BatchNorm

    made = [member for member in group.members if member.dimension != "in"]
    norms = {member for member in made if isinstance(find_layer(module, member.module), _BatchNorm)}
    return norms or set(made)


def _first_order(layer: Any, member: Member) -> Tensor:
    """Sum of weight times gradient over all parameters of each channel."""
    import torch

    total = torch.zeros(member.size, device=next(iter(_parameters(layer))).device)
    for part, gradient in zip(_slices(layer, member), _slices(layer, member, gradient=True), strict=True):
        if part is not None and gradient is not None:
            total = total + (part * gradient).sum(1)
    return total


def _parameters(layer: Any) -> list[Tensor]:
    from torch import nn

    return [layer] if isinstance(layer, nn.Parameter) else list(layer.parameters(recurse=False))


def _slices(layer: Any, member: Member, gradient: bool = False) -> list[Tensor | None]:
    """The layer's parameters (or their gradients) as (channels, rest), the weight first; None without a gradient."""
    from torch import nn

    if isinstance(layer, nn.Parameter):
        tensors = [(layer, int(member.dimension))]
    else:
        edit = ChannelEdit(member.module, member.dimension, ())
        named = [(name, getattr(layer, name), axis) for name, axis in channel_tensors(layer, edit)]
        tensors = [(tensor, axis) for _, tensor, axis in named if isinstance(tensor, nn.Parameter)]
    grouped = not isinstance(layer, nn.Parameter) and is_grouped(layer)
    slices: list[Tensor | None] = []
    for tensor, axis in tensors:
        value = tensor.grad if gradient else tensor.detach()
        slices.append(None if value is None else by_channel(value, axis, layer.groups if grouped else 1))
    return slices


def by_channel(tensor: Tensor, axis: int, groups: int) -> Tensor:
    """(channels, rest), along `axis`; over all groups of a grouped convolution's weight."""
    if tensor.dim() == 1:
        return tensor[:, None]
    if groups == 1:
        return tensor.movedim(axis, 0).flatten(1)
    return tensor.unflatten(0, (groups, -1)).movedim(axis + 1, 1).flatten(0, 1).flatten(1)


def _mean_over_members(
    group: ChannelGroup, vector: Callable[[Member], Tensor | None], normalized: bool
) -> tuple[float, ...]:
    """Averages each channel over the layers that have a vector; empty when none has."""
    totals, counts = [0.0] * len(group), [0] * len(group)
    for position, member in enumerate(group.members):
        values = vector(member)
        if values is None:
            continue
        numbers = values.tolist()
        used = [(channel, numbers[index]) for channel, index in group.items_of(position)]
        mean = sum(value for _, value in used) / len(used) if normalized else 1.0
        for channel, value in used:
            totals[channel] += value / mean if mean else 0.0
            counts[channel] += 1
    if not all(counts):
        return ()
    scores = [total / count for total, count in zip(totals, counts, strict=True)]
    mean = sum(scores) / len(scores) if normalized else 1.0
    return tuple(score / mean if mean else 0.0 for score in scores)
