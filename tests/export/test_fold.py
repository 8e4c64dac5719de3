from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from export.fold import Fold, find_folds, fold, same_function
from tests.export.networks import SIZE, tiny


def _sample() -> Tensor:
    return torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


def test_every_normalization_after_a_convolution_is_folded_and_the_function_stays() -> None:
    module = tiny().eval()
    folds = find_folds(module)
    assert folds == (
        Fold("stem", "norm"),
        Fold("block.expand", "block.norm1"),
        Fold("block.depthwise", "block.norm2"),
        Fold("block.project", "block.norm3"),
    )
    folded = fold(module, folds)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    assert isinstance(module.norm, nn.BatchNorm2d)
    assert same_function(module, folded, _sample())


def test_another_function_is_noticed() -> None:
    assert not same_function(tiny(seed=0).eval(), tiny(seed=1).eval(), _sample())


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)


class _TwoReaders(_Net):
    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.conv(inputs)
        return self.norm(hidden) + hidden


class _UsedTwice(_Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(self.conv(inputs)) + self.conv(inputs + 1)


class _Untraceable(_Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(self.conv(inputs)) if inputs.sum() > 0 else inputs


class _Tied(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Conv2d(3, 4, 3)
        self.other.weight = self.conv.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(self.conv(inputs)) + self.other(inputs)


class _Hooked(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.conv.register_forward_hook(lambda _module, _inputs, output: output * 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(self.conv(inputs))


class _OwnConvolution(nn.Conv2d):
    pass


class _Subclass(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.conv = _OwnConvolution(3, 4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(self.conv(inputs))


@pytest.mark.parametrize("kind", [_TwoReaders, _UsedTwice, _Untraceable, _Tied, _Hooked, _Subclass])
def test_what_is_not_safe_to_fold_is_left_alone(kind: type[nn.Module]) -> None:
    assert find_folds(kind().eval()) == ()


def test_transposed_convolutions_fold_too() -> None:
    module = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    module[1].running_mean.uniform_(-1, 1)  # type: ignore[operator, union-attr]
    module[1].running_var.uniform_(0.5, 2)  # type: ignore[operator, union-attr]
    folds = find_folds(module)
    assert folds == (Fold("0", "1"),)
    assert same_function(module, fold(module, folds), _sample())
