"""Statistics measured again are the averages over the batches that were read."""

from __future__ import annotations

import torch
from torch import nn

from compress.pruning.batchnorm import reestimate
from tests.toy import ToyData, network


def test_statistics_are_plain_averages_over_the_batches():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Dropout(0.9), nn.Linear(192, 3))
    net[0].running_mean.fill_(100)
    batches = list(ToyData().training_batches(32, 0, 0))
    assert reestimate(net, iter(batches), 2, "cpu") == 2
    means = torch.stack([batch.inputs.mean((0, 2, 3)) for batch in batches[:2]])
    torch.testing.assert_close(net[0].running_mean, means.mean(0))
    assert net[0].momentum == 0.1
    assert not any(layer.training for layer in net.modules())


def test_weights_stay_and_random_states_are_not_read():
    net = network("plain").module
    before = {name: parameter.clone() for name, parameter in net.named_parameters()}
    state = torch.get_rng_state()
    reestimate(net, ToyData().training_batches(32, 0, 0), 10, "cpu")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(parameter, before[name]) for name, parameter in net.named_parameters())


def test_without_batch_normalization_or_batches_nothing_is_read():
    assert reestimate(nn.Linear(2, 2), iter(()), 5, "cpu") == 0
    net = network("plain").module
    before = net.stem[1].running_mean.clone()
    assert reestimate(net, ToyData().training_batches(32, 0, 0), 0, "cpu") == 0
    assert torch.equal(net.stem[1].running_mean, before)
