"""Scores of channels, against what they say they are."""

from __future__ import annotations

import pytest
import torch

from compress.errors import StageError
from compress.models.edits import find_layer
from compress.pruning.importance import magnitude_scores, random_scores, scale_scores, taylor_scores
from compress.tasks.protocol import Batch
from tests.pruning.conftest import graph_of, inputs, module, proven_graph
from tests.toy import ToyData, ToyTask


@pytest.mark.parametrize("power", [1, 2])
def test_a_channel_with_larger_weights_everywhere_scores_higher(pattern, power):
    net, graph = module(pattern), proven_graph(pattern)
    group = graph.groups[0]
    with torch.no_grad():
        for member, index in group.channels[3]:
            layer, name = find_layer(net, group.members[member].module), group.members[member].dimension
            if hasattr(layer, "weight") and layer.weight.dim() > 1 and getattr(layer, "groups", 1) == 1:
                layer.weight.select(0 if name == "out" else 1, index).mul_(50)
            elif hasattr(layer, "weight") and layer.weight.numel() > 1:
                layer.weight[index] *= 50
    scores = magnitude_scores(net, graph, power)[group.name]
    assert max(range(len(group)), key=scores.__getitem__) == 3


@pytest.mark.parametrize("power", [1, 2])
def test_magnitudes_have_mean_one_in_every_group_so_that_groups_can_be_compared(pattern, power):
    scores = magnitude_scores(module(pattern), proven_graph(pattern), power)
    for values in scores.values():
        assert sum(values) / len(values) == pytest.approx(1)
        assert all(value > 0 for value in values)


def test_magnitudes_are_the_means_that_they_claim_to_be():
    net, graph = module("plain"), graph_of("plain")
    weight, reader = net.body[0][0].weight.detach(), net.body[1][0].weight.detach()
    parts = [weight.abs().mean((1, 2, 3)), net.body[0][1].weight.detach().abs(), reader.abs().mean((0, 2, 3))]
    expected = sum(part / part.mean() for part in parts) / 3
    torch.testing.assert_close(torch.tensor(magnitude_scores(net, graph, 1)["body.0.0"]), expected)


def test_a_network_of_zeros_has_no_important_channel_and_no_error():
    net = module("plain")
    for parameter in net.parameters():
        parameter.data.zero_()
    assert set(magnitude_scores(net, graph_of("plain"), 2)["stem.0"]) == {0.0}


def test_scales_are_those_of_batch_normalization_and_groups_without_one_stay():
    net = module("squeeze_excite")
    scores, graph = scale_scores(net, graph_of("squeeze_excite"))
    assert scores["body.inner.0"] == pytest.approx(net.body.inner[1].weight.abs().tolist())
    assert "body.reduce" not in scores
    (without,) = (entry for entry in graph.excluded if entry.name == "body.reduce")
    assert without.reason == "no batch normalization that bn-scale could read"


def test_taylor_scores_are_the_squared_slope_of_the_loss_as_a_channel_fades():
    """Against finite differences: scale and shift of the normalization of one channel times (1 - epsilon)."""
    net, graph, task = module("plain").double(), graph_of("plain"), ToyTask()
    batches = [
        Batch(batch.inputs.double(), batch.targets, batch.sample_ids, batch.augmentation_ids)
        for batch in ToyData().evaluation_batches("calibration", 10)
    ]
    scores = taylor_scores(net, graph, batches, lambda o, t: task.loss(o, t, 0.0), "cpu")["body.0.0"]
    norm, epsilon = net.body[0][1], 1e-6
    for channel in (0, 5, 31):
        slopes = []
        for batch in batches:
            with torch.no_grad():
                whole = task.loss(net(batch.inputs), batch.targets, 0.0)
                norm.weight[channel] *= 1 - epsilon
                norm.bias[channel] *= 1 - epsilon
                faded = task.loss(net(batch.inputs), batch.targets, 0.0)
                norm.weight[channel] /= 1 - epsilon
                norm.bias[channel] /= 1 - epsilon
            slopes.append(float(whole - faded) / epsilon)
        assert scores[channel] == pytest.approx(sum(slope**2 for slope in slopes), rel=1e-3)


def test_taylor_scores_find_the_channels_that_nothing_depends_on():
    net, graph, task = module("plain"), graph_of("plain"), ToyTask()
    with torch.no_grad():
        net.body[1][0].weight[:, [2, 9]] = 0
    batches = ToyData().evaluation_batches("calibration", 10)
    scores = taylor_scores(net, graph, batches, lambda o, t: task.loss(o, t, 0.0), "cpu")["body.0.0"]
    assert scores[2] == scores[9] == 0
    assert sum(score > 0 for score in scores) > 20


def test_taylor_scores_leave_no_gradients_and_need_a_batch():
    net = module("plain")
    batches = ToyData().evaluation_batches("calibration", 10)
    taylor_scores(net, graph_of("plain"), batches, lambda o, t: o[:, :3].square().mean(), "cpu")
    assert all(parameter.grad is None for parameter in net.parameters())
    with pytest.raises(StageError, match="needs at least one batch"):
        taylor_scores(net, graph_of("plain"), [], lambda o, t: o.sum(), "cpu")


def test_taylor_scores_exist_for_every_pattern(pattern):
    net, graph = module(pattern), proven_graph(pattern)
    batch = next(ToyData().evaluation_batches("calibration", 10))
    scores = taylor_scores(net, graph, [batch], lambda o, t: o.square().mean(), "cpu")
    for group in graph.groups:
        assert len(scores[group.name]) == len(group)
        assert max(scores[group.name]) > 0
    assert inputs().grad is None


def test_random_scores_follow_the_seed():
    graph = graph_of("residual")
    assert random_scores(graph, 1) == random_scores(graph, 1)
    assert random_scores(graph, 1) != random_scores(graph, 2)
