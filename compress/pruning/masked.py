"""The network with channels zeroed instead of removed: what the cut network has to equal."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compress.errors import EdgepressError
from compress.models.architecture import ChannelEdit
from compress.models.cost import evaluating
from compress.models.edits import apply_edits, channel_tensors, find_layer, is_grouped

if TYPE_CHECKING:
    from torch import Tensor, nn

TOLERANCE = 1e-8
"""Of the largest output, in float64: rounding stays below 1e-10, a wrongly mapped channel shows long before."""


@dataclass(frozen=True)
class Comparison:
    """Cut against masked network. `difference` is the largest one, divided by the largest absolute masked output.

    `error` says why the cut network does not run, if it does not.
    """

    difference: float
    error: str | None = None

    @property
    def equal(self) -> bool:
        return self.error is None and self.difference <= TOLERANCE


def compare(module: nn.Module, edits: Iterable[ChannelEdit], inputs: Tensor) -> Comparison:
    """Makes the edits on one copy, masks their channels in another, runs both in float64. `inputs` (N, C, H, W).

    The copies are made on the CPU; `module` is left as it was. A dropped channel is zero where it is made (weights,
    normalization) and where it is read, so the outputs must be equal whatever the activations do to zero.
    """
    import torch

    edits = tuple(edits)
    masked = copy.deepcopy(module).cpu().double()
    cut = copy.deepcopy(masked)
    inputs = inputs.cpu().double()
    with evaluating(masked), masking(masked, edits):
        expected = _outputs(masked(inputs))
    try:
        apply_edits(cut, edits)
        with evaluating(cut):
            found = _outputs(cut(inputs))
    except EdgepressError as error:
        return Comparison(float("inf"), str(error))
    except Exception as error:  # shapes that no longer fit fail in any operator of the network
        return Comparison(float("inf"), f"the cut network does not run: {str(error).splitlines()[0]}")
    if [output.shape for output in found] != [output.shape for output in expected]:
        return Comparison(float("inf"), "the cut network gives outputs of another shape")
    differences = [
        ((mine - other).abs().max() / other.abs().max().clamp_min(torch.finfo(torch.float64).tiny)).item()
        for mine, other in zip(found, expected, strict=True)
    ]
    # max() would drop a NaN that does not come first
    return Comparison(max((float("inf") if value != value else value for value in differences), default=0.0))


def _outputs(outputs: Any) -> list[Tensor]:
    if isinstance(outputs, dict):
        return [tensor for value in outputs.values() for tensor in _outputs(value)]
    if isinstance(outputs, list | tuple):
        return [tensor for value in outputs for tensor in _outputs(value)]
    return [outputs]


@contextmanager
def masking(module: nn.Module, edits: Iterable[ChannelEdit]) -> Iterator[None]:
    """Zeroes the dropped channels of `module` for good; inside, layer and group norms skip them in their statistics."""
    from torch import nn

    statistics: dict[int, tuple[int, ...]] = {}
    for edit in edits:
        layer = find_layer(module, edit.module)
        mask(layer, edit)
        if isinstance(layer, nn.LayerNorm | nn.GroupNorm):
            statistics[id(layer.weight)] = edit.keep
    with _partial_normalization(statistics):
        yield


def mask(layer: Any, edit: ChannelEdit) -> None:
    """Zeroes the channels that an edit drops, in place."""
    import torch
    from torch import nn

    with torch.no_grad():
        if isinstance(layer, nn.Parameter):
            _zero(layer, int(edit.dimension), edit.keep)
            return
        for name, axis in channel_tensors(layer, edit):
            tensor = getattr(layer, name)
            if is_grouped(layer) and tensor.dim() > 1:
                _zero_in_groups(layer, axis, edit)
            else:
                _zero(tensor, axis, edit.keep)


def _zero(tensor: Tensor, axis: int, keep: tuple[int, ...]) -> None:
    import torch

    dropped = sorted(set(range(tensor.shape[axis])) - set(keep))
    tensor.index_fill_(axis, torch.tensor(dropped, dtype=torch.long, device=tensor.device), 0)


def _zero_in_groups(layer: Any, axis: int, edit: ChannelEdit) -> None:
    channels = layer.out_channels if edit.dimension == "out" else layer.in_channels
    size = channels // layer.groups
    for group, part in enumerate(layer.weight.unflatten(0, (layer.groups, -1))):
        _zero(part, axis, tuple(index % size for index in edit.keep if index // size == group))


@contextmanager
def _partial_normalization(statistics: dict[int, tuple[int, ...]]) -> Iterator[None]:
    """Layer and group norms whose weight is listed see only the kept channels, and give zero for the others."""
    import torch
    import torch.nn.functional as F
    from torch.overrides import TorchFunctionMode

    axes = {F.layer_norm: -1, F.group_norm: 1}

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function not in axes:
                return function(*args, **(kwargs or {}))
            given = inspect.signature(function).bind(*args, **(kwargs or {})).arguments
            weight, bias = given.get("weight"), given.get("bias")
            keep = statistics.get(id(weight))
            if weight is None or keep is None:
                return function(**given)
            inputs, index = given["input"], torch.tensor(keep, device=weight.device)
            given |= {"input": inputs.index_select(axes[function], index), "weight": weight[index]}
            if bias is not None:
                given["bias"] = bias[index]
            if function is F.layer_norm:
                given["normalized_shape"] = (len(keep),)
            return torch.zeros_like(inputs).index_copy(axes[function], index, function(**given))

    with Mode():
        yield
