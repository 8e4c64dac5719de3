"""Which channels belong together, one graph pattern at a time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compress.errors import StageError
from compress.pruning.graph import trace
from tests import nets
from tests.pruning.conftest import graph_of, inputs, module, proven_graph

PARTIAL = ("shuffle", "attention", "fixed_split", "tied_weights")
"""Patterns with parts that stay."""


def layers(name, group):
    """`module.dimension` of the members of the group with this name."""
    found = next(entry for entry in graph_of(name).groups if entry.name == group)
    return {f"{member.module}.{member.dimension}" for member in found.members}


def excluded(name):
    return {entry.name: entry.reason for entry in proven_graph(name).excluded}


def test_the_outputs_of_the_network_are_never_cut(pattern):
    last = "head.2" if pattern == "flatten" else "classifier"
    assert excluded(pattern)[last] == "it is an output of the network"


def test_every_channel_is_in_one_group_and_every_index_in_one_channel(pattern):
    for group in graph_of(pattern).groups:
        assert sorted(channel for block in group.blocks for channel in block) == list(range(len(group)))
    seen = [
        (group.members[member], index)
        for group in graph_of(pattern).groups
        for channel in group.channels
        for member, index in channel
    ]
    assert len(seen) == len(set(seen))


def test_tracing_leaves_the_network_alone_and_gives_the_same_graph_again(pattern):
    net = module(pattern).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    assert trace(net, inputs()) == trace(net, inputs()) == graph_of(pattern)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_a_residual_stream_is_one_group_over_all_blocks():
    assert layers("residual", "stem.0") >= {"stem.0.out", "body.0.inner.1.out", "body.1.inner.1.out", "classifier.in"}
    assert layers("residual", "body.0.inner.0.0") == {
        "body.0.inner.0.0.out",
        "body.0.inner.0.1.out",
        "body.0.inner.1.in",
    }


def test_depthwise_layers_go_with_their_inputs():
    assert layers("depthwise", "body.0.0") == {
        "body.0.0.out",
        "body.0.1.out",
        "body.1.0.out",
        "body.1.1.out",
        "body.2.0.in",
    }


def test_the_halves_of_a_gate_go_together_pair_by_pair():
    (group,) = (group for group in graph_of("chunk").groups if group.name == "body.expand.0")
    expand = group.members.index(next(m for m in group.members if m.module == "body.expand.0"))
    assert all(sorted(i for m, i in channel if m == expand) == [c, c + 16] for c, channel in enumerate(group.channels))


def test_each_part_of_a_concatenation_is_its_own_group_at_its_own_offset():
    groups = {group.name: group for group in graph_of("concat").groups}
    second = groups["body.0.branches.1.0"]
    reader = next(position for position, m in enumerate(second.members) if m.module == "body.1.0")
    assert [i for channel in second.channels for m, i in channel if m == reader] == list(range(16, 48))


def test_a_concatenation_with_itself_is_read_at_both_places():
    group = next(g for g in graph_of("concat_itself").groups if g.name == "body.0.branches.0.0")
    reader = next(position for position, m in enumerate(group.members) if m.module == "body.1.0")
    assert [[i for m, i in channel if m == reader] for channel in group.channels] == [[c, c + 16] for c in range(16)]


def test_a_flattened_map_is_read_at_every_pixel():
    group = next(g for g in graph_of("flatten").groups if g.name == "features.1.0")
    reader = next(position for position, m in enumerate(group.members) if m.module == "head.0")
    assert [i for m, i in group.channels[3] if m == reader] == [12, 13, 14, 15]


@pytest.mark.parametrize(
    ("name", "group", "blocks"),
    [("grouped", "body.0.0", 4), ("chunk_concat", "body.first.0", 2), ("transposed", "body.up", 4)],
)
def test_groups_and_splits_keep_equally_many_of_each_part(name, group, blocks):
    found = next(entry for entry in graph_of(name).groups if entry.name == group)
    assert [len(block) for block in found.blocks] == [len(found) // blocks] * blocks


@pytest.mark.parametrize(
    ("name", "group", "reason"),
    [
        ("attention", "stem.0", "body.attention (MultiheadAttention) cannot be cut"),
        ("tied_weights", "body.first", "its weights are shared with body."),
        ("fixed_split", "body.first.0", "the cut network does not run"),
    ],
)
def test_what_cannot_be_cut_stays_for_a_reason(name, group, reason):
    assert excluded(name)[group].startswith(reason)


@pytest.mark.parametrize("name", PARTIAL)
def test_one_part_that_cannot_be_cut_does_not_stop_the_others(name):
    names = {group.name for group in proven_graph(name).groups}
    assert (
        names
        >= {
            "shuffle": {"body.0.inner.0.0", "body.1.inner.0.0"},
            "attention": {"body.expand"},
            "fixed_split": {"stem.0", "body.left.0"},
            "tied_weights": {"body.last.0"},
        }[name]
    )


@pytest.mark.parametrize("name", [name for name in nets.PATTERNS if name not in PARTIAL])
def test_everything_else_can_be_cut_in_every_other_pattern(name):
    assert len(excluded(name)) == 1


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, inputs):
        raise RuntimeError("needs a second input")


def test_a_network_that_does_not_run_is_refused_with_its_own_message():
    with pytest.raises(StageError, match="cannot be traced for pruning: RuntimeError: needs a second input"):
        trace(Failing(), inputs())


def test_settings_do_not_leak_from_one_network_into_the_next():
    """torch-pruning's own pruners have mutable default arguments; its graph alone is used here."""
    first = trace(module("grouped"), inputs())
    trace(module("attention"), inputs())
    trace(nets.trained_like(nets.plain(width=24)), inputs())
    assert trace(module("grouped"), inputs()) == first


@pytest.mark.parametrize("net", [nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), nn.Sequential(nn.Conv2d(3, 4, 1))])
def test_a_network_of_one_layer_has_nothing_to_cut(net):
    assert trace(net, inputs()).groups == ()
