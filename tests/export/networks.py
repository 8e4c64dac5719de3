"""Factories that converter processes call by name: a tiny network with the layers that matter, and misbehaving ones."""

from __future__ import annotations

import os
import resource
import signal
import time

import torch
from torch import Tensor, nn

CLASSES = 5
SIZE = 12


class Block(nn.Module):
    """An inverted residual: expand, depthwise, project, add."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = nn.Conv2d(width, 2 * width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(2 * width)
        self.act1 = nn.ReLU6()
        self.depthwise = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.act2 = nn.ReLU6()
        self.project = nn.Conv2d(2 * width, width, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(width)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.act1(self.norm1(self.expand(inputs)))
        hidden = self.act2(self.norm2(self.depthwise(hidden)))
        return inputs + self.norm3(self.project(hidden))


class Tiny(nn.Module):
    """Convolution, max pooling, an inverted residual, the mean over the image, a classifier."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.block = Block(width)
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.pool(torch.relu(self.norm(self.stem(inputs))))
        return self.classifier(self.block(hidden).mean((2, 3)))


def tiny(seed: int = 0, width: int = 8) -> nn.Module:
    """Weights and statistics as training leaves them: no scale is one, no shift is zero."""
    generator = torch.Generator().manual_seed(seed)
    module = Tiny(width)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.dtype != torch.float32:
            continue
        positive = "var" in name or ("norm" in name and name.endswith("weight"))
        drawn = torch.rand(tensor.shape, generator=generator) + 0.5 if positive else _normal(tensor, generator)
        tensor.data.copy_(drawn)
    return module


class _Chain(nn.Module):
    """Convolutions that read one another by way of what lets factors pass: ReLU, pooling, a mean, a flattening."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.second = nn.Conv2d(16, 8, 1)
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.depthwise(torch.relu(self.first(inputs))))
        hidden = torch.relu(self.second(torch.max_pool2d(hidden, 2)))
        return self.classifier(hidden.mean((2, 3)))


def outliers(factor: float = 1.0) -> nn.Module:
    """A chain in which every fourth channel is `factor` times larger where it is made, and smaller where it is read."""
    torch.manual_seed(0)
    module = _Chain().eval()
    with torch.no_grad():
        module.first.weight[::4] *= factor
        module.first.bias[::4] *= factor
        module.depthwise.weight[::4] /= factor
        module.depthwise.weight[1::4] *= factor
        module.depthwise.bias[1::4] *= factor
        module.second.weight[:, 1::4] /= factor
    return module


def _normal(tensor: Tensor, generator: torch.Generator) -> Tensor:
    fan_in = max(tensor[0].numel(), 1) if tensor.ndim > 1 else 4
    return torch.randn(tensor.shape, generator=generator) * fan_in**-0.5


class _Special(nn.Module):
    def __init__(self, operator: str) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.special.i0e(inputs) if self.operator == "i0e" else torch.lgamma(inputs.abs() + 1)


class _Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inner(inputs)


def unsupported(operator: str) -> nn.Module:
    """An operator that neither converter knows, at `features.1.inner`."""
    features = nn.Sequential(nn.Conv2d(3, CLASSES, 3), _Outer(_Special(operator)))
    return _Classifier(features)


class _Classifier(nn.Module):
    def __init__(self, features: nn.Module) -> None:
        super().__init__()
        self.features = features

    def forward(self, inputs: Tensor) -> Tensor:
        return self.features(inputs).mean((2, 3))


class _Branching(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs if inputs.sum() > 0 else -inputs


def branching() -> nn.Module:
    """Code that depends on data, at `features.1`: it cannot be traced."""
    return _Classifier(nn.Sequential(nn.Conv2d(3, CLASSES, 3), _Branching()))


class _Dead(nn.Module):
    """Answers with scores between 0 and 1 beside a constant of 100,000: one INT8 scale cannot hold both."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, CLASSES - 1, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        scores = torch.sigmoid(self.features(inputs)).mean((2, 3))
        return torch.cat([scores, torch.full((inputs.shape[0], 1), 1e5)], 1)


def dead() -> nn.Module:
    torch.manual_seed(0)
    return _Dead()


def killed() -> nn.Module:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def endless() -> nn.Module:
    time.sleep(600)
    raise AssertionError("unreachable")


def full_disk() -> nn.Module:
    """From here on this process can write no file of more than 1,000 bytes, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    return tiny()


def no_module() -> object:
    return "a string"
