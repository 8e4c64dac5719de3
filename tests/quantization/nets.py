"""One network with every pattern that decides where INT8 kernels round."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def layer(inputs: int, outputs: int, kernel: int = 3, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


class Mixed(nn.Module):
    """Fused activations, max pooling, a depthwise layer, a residual addition, a concatenation, a mean, a classifier."""

    def __init__(self, num_classes: int = 3, in_channels: int = 3) -> None:
        super().__init__()
        self.stem = layer(in_channels, 8)
        self.pool = nn.MaxPool2d(2)
        self.expand, self.depthwise, self.project = layer(8, 16, 1), layer(16, 16, 3, 16), layer(16, 8, 1)
        self.left, self.right = layer(8, 8), layer(8, 4)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(12, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.pool(F.relu(self.stem(inputs)))
        inner = F.relu6(self.depthwise(F.relu6(self.expand(hidden))))
        hidden = F.relu(hidden + self.project(inner))
        both = torch.cat([F.relu(self.left(hidden)), self.right(hidden)], 1)
        return self.classifier(F.dropout(self.dropout(both.mean((2, 3))), 0.1, self.training))


def mixed(num_classes: int = 3, in_channels: int = 3) -> nn.Module:
    return Mixed(num_classes, in_channels)
