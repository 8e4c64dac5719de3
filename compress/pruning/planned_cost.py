"""What a network would cost with fewer channels, computed without cutting anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compress.models.cost import Cost, count_macs, count_parameters, evaluating

if TYPE_CHECKING:
    from torch import Tensor, nn

Axis = tuple[str, str]
"""Module path (or path of a bare parameter) and channel axis."""


@dataclass(frozen=True)
class _Tensor:
    """A parameter of `fixed` numbers times the sizes of its channel axes, used `positions` times a sample."""

    fixed: float
    axes: tuple[Axis, ...]
    positions: int


@dataclass(frozen=True)
class CostModel:
    """Parameters are exact; multiply-accumulates outside of convolutions and linear layers (attention) stay."""

    tensors: tuple[_Tensor, ...]
    sizes: Mapping[Axis, int]
    fixed_parameters: int
    fixed_macs: int

    def cost(self, kept: Mapping[Axis, int]) -> Cost:
        """The cost when these axes keep so many channels and all others keep all."""
        parameters, macs = float(self.fixed_parameters), float(self.fixed_macs)
        for tensor in self.tensors:
            numbers = tensor.fixed
            for axis in tensor.axes:
                numbers *= kept.get(axis, self.sizes[axis])
            parameters += numbers
            macs += numbers * tensor.positions
        return Cost(round(parameters), round(macs))


def cost_model(module: nn.Module, inputs: Tensor) -> CostModel:
    """Measures a network with one forward pass; the module is left as it was. `inputs` (N, C, H, W)."""
    positions = _positions(module, inputs)
    tensors, sizes, accounted = list[_Tensor](), dict[Axis, int](), set[int]()
    for name, layer in module.named_modules():
        for parameter, axes in _axes(name, layer):
            if id(parameter) in accounted:
                continue
            accounted.add(id(parameter))
            sizes.update(dict(axes))
            numbers = float(parameter.numel())
            for _, size in axes:
                numbers /= size
            uses = positions.get(name, 0) if parameter is getattr(layer, "weight", None) else 0
            tensors.append(_Tensor(numbers, tuple(axis for axis, _ in axes), uses))
    model = CostModel(tuple(tensors), sizes, 0, 0)
    now = model.cost({})
    return CostModel(
        model.tensors,
        model.sizes,
        count_parameters(module) - now.parameters,
        count_macs(module, (inputs,)) - now.macs,
    )


def _axes(name: str, layer: Any) -> Iterator[tuple[Any, list[tuple[Axis, int]]]]:
    """Each own parameter of a layer, with its channel axes and their sizes."""
    from torch import nn
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.conv import _ConvNd

    from compress.models.edits import is_depthwise

    if isinstance(layer, _ConvNd):
        out: list[tuple[Axis, int]] = [((name, "out"), layer.out_channels)]
        yield layer.weight, out if is_depthwise(layer) else [*out, ((name, "in"), layer.in_channels)]
        if layer.bias is not None:
            yield layer.bias, out
    elif isinstance(layer, nn.Linear):
        out = [((name, "out"), layer.out_features)]
        yield layer.weight, [*out, ((name, "in"), layer.in_features)]
        if layer.bias is not None:
            yield layer.bias, out
    elif isinstance(layer, _NormBase | nn.GroupNorm | nn.PReLU):
        for parameter in layer.parameters(recurse=False):
            yield parameter, [((name, "out"), parameter.numel())] if parameter.numel() > 1 else []
    elif isinstance(layer, nn.LayerNorm):
        for parameter in layer.parameters(recurse=False):
            yield parameter, [((name, "out"), parameter.shape[-1])]
    elif isinstance(layer, nn.Embedding):
        yield layer.weight, [((name, "out"), layer.embedding_dim)]
    else:
        for own, parameter in layer.named_parameters(recurse=False):
            path = f"{name}.{own}" if name else own
            # Axes of length one have no channels; of the others at most one is ever cut, the plan says which.
            yield parameter, [((path, str(axis)), size) for axis, size in enumerate(parameter.shape) if size > 1]


def _positions(module: nn.Module, inputs: Tensor) -> dict[str, int]:
    """How many times a sample multiplies with each weight of a convolution or linear layer."""
    from torch import nn
    from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

    positions: dict[str, int] = {}
    batch = inputs.shape[0]

    def hook(name: str) -> Any:
        def record(layer: Any, given: tuple[Tensor, ...], output: Tensor) -> None:
            if isinstance(layer, _ConvTransposeNd):
                uses = given[0].numel() // layer.in_channels
            else:
                uses = output.numel() // (layer.out_channels if isinstance(layer, _ConvNd) else layer.out_features)
            positions[name] = positions.get(name, 0) + uses // batch

        return record

    handles = [
        layer.register_forward_hook(hook(name))
        for name, layer in module.named_modules()
        if isinstance(layer, _ConvNd | nn.Linear)
    ]
    try:
        with evaluating(module):
            module(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return positions
