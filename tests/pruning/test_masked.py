"""Cut network against masked network, for every graph pattern; and that the check notices a wrong cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from compress.models.architecture import ChannelEdit
from compress.models.cost import count
from compress.models.edits import apply_edits
from compress.pruning.groups import edits_for
from compress.pruning.masked import compare, mask, masking
from compress.pruning.planned_cost import cost_model
from tests.pruning.conftest import inputs, module, proven_graph


def drop(graph, share, offset=0):
    """The first, or later, channels of each block of every group."""
    dropped = {}
    for group in graph.groups:
        size = len(group.blocks[0])
        number = min(max(1, int(share * size)), size - 1)
        dropped[group.name] = frozenset(
            block[(place + offset) % size] for block in group.blocks for place in range(number)
        )
    return edits_for(graph.groups, dropped)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_cut_network_equals_the_masked_one(pattern, share):
    net, graph = module(pattern), proven_graph(pattern)
    edits = drop(graph, share, offset=1)
    outcome = compare(net, edits, torch.randn(2, 3, 8, 8))
    assert outcome.equal, outcome
    assert outcome.difference < 1e-9


def test_cutting_half_changes_the_outputs_or_the_comparison_would_prove_nothing(pattern):
    net = module(pattern)
    with torch.no_grad():
        whole = net(inputs())
        with masking(net, drop(proven_graph(pattern), 0.5, offset=1)):
            assert (net(inputs()) - whole).abs().max() > 1e-3 * whole.abs().max()


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_the_planned_cost_is_the_cost_of_the_cut_network(pattern, share):
    net = module(pattern)
    model = cost_model(net, inputs())
    assert model.cost({}) == count(net, (1, 3, 8, 8))
    edits = drop(proven_graph(pattern), share)
    planned = model.cost({(edit.module, edit.dimension): len(edit.keep) for edit in edits})
    apply_edits(net, edits)
    assert planned == count(net, (1, 3, 8, 8))


def test_channels_that_are_read_at_the_wrong_place_are_noticed():
    net, edits = module("concat"), list(drop(proven_graph("concat"), 0.5))
    position = next(i for i, edit in enumerate(edits) if edit.module == "body.1.0" and edit.dimension == "in")
    keep = edits[position].keep
    edits[position] = replace(edits[position], keep=tuple(48 - len(keep) + i for i in range(len(keep))))
    outcome = compare(net, edits, inputs())
    assert not outcome.equal
    assert outcome.difference > 1e-3


def test_a_layer_that_was_forgotten_is_noticed():
    net = module("residual")
    edits = [edit for edit in drop(proven_graph("residual"), 0.5) if edit.module != "body.1.inner.1"]
    outcome = compare(net, edits, inputs())
    assert outcome.error is not None
    assert outcome.error.startswith("the cut network does not run: ")


def test_the_network_that_is_compared_stays_as_it_was(pattern):
    net = module(pattern).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    compare(net, drop(proven_graph(pattern), 0.5), inputs())
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_not_a_number_is_no_equality():
    net = module("plain")
    net.classifier.bias.data[3] = float("nan")
    assert not compare(net, drop(proven_graph("plain"), 0.5), inputs()).equal


def test_masking_zeroes_what_an_edit_drops_and_nothing_else():
    layer = torch.nn.Conv2d(8, 8, 3, groups=2)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.ones_(layer.bias)
    mask(layer, ChannelEdit("layer", "out", (0, 1, 4, 5)))
    assert layer.bias.tolist() == [1, 1, 0, 0, 1, 1, 0, 0]
    mask(layer, ChannelEdit("layer", "in", (0, 2, 3, 5, 6, 7)))
    assert layer.weight[0, :, 0, 0].tolist() == [1, 0, 1, 1]
    assert layer.weight[4, :, 0, 0].tolist() == [0, 1, 1, 1]
