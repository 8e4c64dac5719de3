"""A network small enough to train, convert and measure in a test: 24,000 parameters, digits at 28 x 28."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


class TinyNet(nn.Module):
    """Three convolutions with normalization, a mean over the image, one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 16, 32, 64)
        blocks = [
            nn.Sequential(nn.Conv2d(before, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            for before, width in pairwise(widths)
        ]
        self.body = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(images))
        return logits


def make() -> nn.Module:
    return TinyNet()
