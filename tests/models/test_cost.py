"""Parameters and multiply-accumulates, against counts by hand."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

from compress.models.cost import Cost, count, evaluating
from tests.toy import network


@pytest.mark.parametrize(
    ("layer", "shape", "macs"),
    [
        (nn.Conv2d(3, 8, 3, padding=1), (1, 3, 10, 10), 100 * 8 * 27),
        (nn.Conv2d(8, 8, 3, groups=8), (1, 8, 10, 10), 64 * 8 * 9),
        (nn.Conv2d(8, 4, 3, groups=2, stride=2), (1, 8, 9, 9), 16 * 4 * 4 * 9),
        (nn.ConvTranspose2d(4, 8, 2, 2), (1, 4, 5, 5), 25 * 4 * 8 * 4),
        (nn.Linear(6, 5), (1, 7, 6), 7 * 6 * 5),
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_layers(layer, shape, macs, batch):
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    assert count(layer, (batch, *shape[1:])) == Cost(parameters, macs)


def test_attention_counts_its_matrix_products_too():
    net = network("attention").module
    tokens, width = 16, 16
    attention = tokens * (4 * width * width) + 2 * tokens * tokens * width
    layers = 16 * 16 * 27 + tokens * 8 * width * width + 3 * width
    assert count(net, (1, 3, 8, 8)).macs == attention + layers


def test_a_layer_that_is_used_twice_costs_its_parameters_once():
    layer = nn.Linear(4, 4, bias=False)
    assert count(nn.Sequential(layer, nn.ReLU(), layer), (1, 4)) == Cost(16, 32)


def test_modes_and_gradients_are_as_before():
    net = network("plain").module.train()
    net.body[0].eval()
    modes = [module.training for module in net.modules()]
    mean = net.stem[1].running_mean.clone()
    count(net, (1, 3, 8, 8))
    assert [module.training for module in net.modules()] == modes
    assert torch.equal(net.stem[1].running_mean, mean)
    assert torch.is_grad_enabled()


def test_modes_are_restored_after_an_error():
    net = nn.Linear(2, 2)
    with contextlib.suppress(ZeroDivisionError), evaluating(net):
        assert not net.training
        raise ZeroDivisionError
    assert net.training
