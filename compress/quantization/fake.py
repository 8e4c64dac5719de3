"""Fake quantization: floats rounded to what 8-bit numbers can hold, with gradients passed straight through.

After Jacob et al. 2018 ("Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference"): activations per tensor with a zero point, weights per output channel without one, biases in 32 bits at the
product of both scales.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Phase = Literal["off", "calibrate", "quantize"]

ACTIVATION_LEVELS = 255
_MOMENTUM = 0.99
_SMALLEST_SCALE = 1e-8
_BIAS_LIMIT = 2.0**30


class FakeQuantize(nn.Module):
    """Rounds activations of any shape at one point.

    `calibrate` widens the range to all that passes and rounds nothing; `quantize` rounds, and while training it moves
    the range with a moving average, for `steps` forward passes. Points of one `group` share the range that holds all
    of theirs.
    """

    low: Tensor
    high: Tensor
    seen: Tensor

    def __init__(self, observed: bool = True, fixed: tuple[float, int] | None = None, steps: int = 0) -> None:
        super().__init__()
        self.register_buffer("low", torch.tensor(float("inf")))
        self.register_buffer("high", torch.tensor(float("-inf")))
        self.register_buffer("seen", torch.tensor(0))
        self.group: list[FakeQuantize] = [self]
        self.observed, self.fixed, self.steps = observed, fixed, steps
        self.phase: Phase = "off"

    def forward(self, values: Tensor) -> Tensor:
        if self.phase == "off":
            return values
        if self.phase == "calibrate":
            self._widen(values)
            return values
        if self.training:
            self._follow(values)
        scale, zero_point = self.scale_and_zero_point()
        rounded: Tensor = torch.fake_quantize_per_tensor_affine(values.float(), scale, zero_point, 0, ACTIVATION_LEVELS)
        return rounded.to(values.dtype)

    @torch.no_grad()
    def scale_and_zero_point(self) -> tuple[Tensor, Tensor]:
        """0-dimensional float32 and int32; the zero point is that of uint8. The range always holds zero."""
        if self.fixed is not None:
            return self.low.new_tensor(self.fixed[0]), self.seen.new_tensor(self.fixed[1], dtype=torch.int32)
        low = torch.stack([member.low for member in self.group]).min().clamp(max=0)
        high = torch.stack([member.high for member in self.group]).max().clamp(min=0)
        scale = ((high - low) / ACTIVATION_LEVELS).clamp(min=_SMALLEST_SCALE)
        return scale, (-low / scale).round().clamp(0, ACTIVATION_LEVELS).to(torch.int32)

    @torch.no_grad()
    def _widen(self, values: Tensor) -> None:
        if self.observed:
            self.low.copy_(torch.minimum(self.low, values.float().min()))
            self.high.copy_(torch.maximum(self.high, values.float().max()))

    @torch.no_grad()
    def _follow(self, values: Tensor) -> None:
        if self.observed and int(self.seen) < self.steps:
            self.low.lerp_(values.float().min(), 1 - _MOMENTUM)
            self.high.lerp_(values.float().max(), 1 - _MOMENTUM)
        self.seen += 1


class WeightQuantizer:
    """Rounds the weight and bias of one layer. `levels`: largest integer of a weight.

    `source` is the point that the layer reads; None when the layer is called at several places, so that no single
    scale of the bias exists, and the bias stays as it is.
    """

    def __init__(self, source: FakeQuantize | None, levels: int, enabled: FakeQuantize) -> None:
        self._source, self._levels, self._enabled = source, levels, enabled

    def __call__(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Weight (O, ...) and bias (O,) as the integer kernel sees them."""
        if self._enabled.phase != "quantize":
            return weight, bias
        scales = self.scales(weight, bias)
        zero_points = torch.zeros_like(scales, dtype=torch.int32)
        rounded = torch.fake_quantize_per_channel_affine(
            weight.float(), scales, zero_points, 0, -self._levels, self._levels
        )
        if bias is None or self._source is None:
            return rounded, bias
        step = self._source.scale_and_zero_point()[0] * scales
        return rounded, bias + (torch.round(bias / step) * step - bias).detach()

    @torch.no_grad()
    def scales(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(O,) float32: the largest weight of each channel is the largest integer, unless a bias would overflow."""
        scales = weight.float().flatten(1).abs().amax(1) / self._levels
        if bias is not None and self._source is not None:
            step = self._source.scale_and_zero_point()[0]
            scales = torch.maximum(scales, bias.float().abs() / (step * _BIAS_LIMIT))
        return scales.clamp(min=_SMALLEST_SCALE)


class QuantizedConv2d(nn.Conv2d):
    """A convolution with rounded weights; shares the parameters of the layer that it takes the place of."""

    def __init__(self, layer: nn.Conv2d, quantizer: WeightQuantizer) -> None:
        super().__init__(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,  # type: ignore[arg-type]
            layer.stride,  # type: ignore[arg-type]
            layer.padding,  # type: ignore[arg-type]
            layer.dilation,  # type: ignore[arg-type]
            layer.groups,
            layer.bias is not None,
            layer.padding_mode,
        )
        self.weight, self.bias = layer.weight, layer.bias
        self.quantizer = quantizer

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, *self.quantizer(self.weight, self.bias))


class QuantizedLinear(nn.Linear):
    """A linear layer with rounded weights; shares the parameters of the layer that it takes the place of."""

    def __init__(self, layer: nn.Linear, quantizer: WeightQuantizer) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None)
        self.weight, self.bias = layer.weight, layer.bias
        self.quantizer = quantizer

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, *self.quantizer(self.weight, self.bias))
