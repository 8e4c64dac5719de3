"""1x1 convolutions with a stride and few channels: trained without their unsafe gradient, unchanged otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from compress.models.residual import residual
from compress.training.pointwise import strides_by_slicing

TRAINING = """
import torch
from compress.models.residual import residual
from compress.training.pointwise import strides_by_slicing
torch.set_num_threads(1)
model = residual(blocks=1, width=4, in_channels=1).train().to(memory_format=torch.channels_last)
images = torch.randn(50, 1, 28, 28)
with strides_by_slicing(model):
    for _ in range(25):
        torch.nn.functional.cross_entropy(model(images), torch.zeros(50, dtype=torch.long)).backward()
"""


def test_a_narrow_residual_network_survives_its_training() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAINING],
        env={"MALLOC_CHECK_": "3", "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", [28, 27])
def test_inside_the_outputs_and_gradients_are_those_of_before(size: int) -> None:
    model = residual(blocks=1, width=9, in_channels=3).double()
    narrow = nn.Conv2d(7, 6, 1, stride=(2, 3)).double()
    images, maps = torch.randn(2, 3, size, size).double(), torch.randn(2, 7, size, size).double()
    before, (before_maps, gradient) = model(images), _with_gradient(narrow, maps)
    with strides_by_slicing(model), strides_by_slicing(narrow):
        assert narrow.stride == (1, 1)
        inside, (inside_maps, inside_gradient) = model(images), _with_gradient(narrow, maps)
    torch.testing.assert_close(inside, before)
    torch.testing.assert_close(inside_maps, before_maps)
    torch.testing.assert_close(inside_gradient, gradient)


def test_afterwards_the_network_is_as_before_even_after_an_error() -> None:
    narrow = nn.Conv2d(4, 8, 1, stride=2)
    with pytest.raises(KeyboardInterrupt), strides_by_slicing(narrow):
        raise KeyboardInterrupt
    assert narrow.stride == (2, 2)
    assert not narrow._forward_pre_hooks


@pytest.mark.parametrize(
    "module", [nn.Conv2d(8, 8, 1, 2), nn.Conv2d(4, 8, 3, 2), nn.Conv2d(4, 8, 1, 1), nn.Conv2d(4, 8, 1, 2, padding=1)]
)
def test_convolutions_that_are_safe_stay_as_they_are(module: nn.Conv2d) -> None:
    stride = module.stride
    with strides_by_slicing(module):
        assert module.stride == stride


def _with_gradient(module: nn.Conv2d, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    outputs = module(maps)
    (gradient,) = torch.autograd.grad(outputs.square().sum(), module.weight)
    return outputs, gradient
