"""Penalties, against sums computed by hand, for every graph pattern."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compress.errors import StageError
from compress.pruning.graph import trace
from compress.pruning.groups import ChannelGraph
from compress.pruning.sparsity import sparsity_penalty
from tests.pruning.conftest import graph_of, inputs, module, proven_graph


def test_group_lasso_is_the_sum_of_the_norms_of_all_weights_of_a_channel():
    net = module("plain")
    group = next(g for g in graph_of("plain").groups if g.name == "body.0.0")
    penalty = sparsity_penalty(net, ChannelGraph((group,)), "group_lasso", 0.5)
    own, reader = net.body[0][0].weight, net.body[1][0].weight
    expected = (own.square().sum((1, 2, 3)) + reader.square().sum((0, 2, 3))).sqrt().sum()
    torch.testing.assert_close(penalty(net), 0.5 * expected)


def test_scales_are_summed_over_batch_normalizations_that_can_be_cut():
    net = module("residual")
    expected = sum(layer.weight.abs().sum() for layer in net.modules() if isinstance(layer, nn.BatchNorm2d))
    torch.testing.assert_close(sparsity_penalty(net, proven_graph("residual"), "bn_l1", 2.0)(net), 2 * expected)


@pytest.mark.parametrize("regularizer", ["group_lasso", "bn_l1"])
def test_every_weight_that_is_penalized_gets_a_finite_gradient_also_at_zero(pattern, regularizer):
    net, graph = module(pattern), proven_graph(pattern)
    if pattern in ("attention", "tied_weights") and regularizer == "bn_l1":
        graph = graph_of("plain")
        net = module("plain")
    with torch.no_grad():
        next(net.parameters()).zero_()
    penalty = sparsity_penalty(net, graph, regularizer, 1e-2)
    penalty(net).backward()
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_descending_on_the_penalty_lets_whole_channels_shrink_together():
    net, graph = module("depthwise"), graph_of("depthwise")
    penalty = sparsity_penalty(net, graph, "group_lasso", 1.0)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    before = penalty(net).item()
    for _ in range(20):
        optimizer.zero_grad()
        penalty(net).backward()
        optimizer.step()
    assert penalty(net).item() < 0.8 * before


@pytest.mark.parametrize(
    ("regularizer", "what"), [("group_lasso", "channels that can be cut"), ("bn_l1", "batch normalizations")]
)
def test_a_network_with_nothing_to_penalize_is_refused(regularizer, what):
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    with pytest.raises(StageError, match=f"the network has no {what}"):
        sparsity_penalty(net, trace(net, inputs()), regularizer, 1.0)
