"""Residual networks for images of about 32x32 (He et al. 2016, "Deep residual learning", section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, and a shortcut that is a 1x1 convolution where the shape changes (option B)."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(inputs)))
        return F.relu(self.bn2(self.conv2(hidden)) + self.shortcut(inputs))


class Residual(nn.Module):
    """A 3x3 stem, three stages of basic blocks (the second and third at half the resolution), mean, linear.

    With `stride` 2 the first stage halves the resolution too: a quarter of the MACs for the same parameters.
    """

    def __init__(self, blocks: Sequence[int], width: int, stride: int, num_classes: int, in_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        layers, channels = [], width
        for stage, count in enumerate(blocks):
            for position in range(count):
                first = 2 if stage else stride
                layers.append(BasicBlock(channels, width << stage, 1 if position else first))
                channels = width << stage
        self.blocks = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, in_channels, H, W) to logits (N, num_classes)."""
        features = self.blocks(F.relu(self.bn(self.conv(inputs))))
        return self.classifier(features.mean((2, 3)))


def residual(
    blocks: Sequence[int] | int = 3, width: int = 16, stride: int = 1, num_classes: int = 10, in_channels: int = 3
) -> Residual:
    """ResNet-(6 * blocks + 2): 3 blocks a stage give ResNet-20, 9 give ResNet-56."""
    counts = [blocks] if isinstance(blocks, int) else list(blocks)
    return Residual(counts * 3 if len(counts) == 1 else counts, width, stride, num_classes, in_channels)
