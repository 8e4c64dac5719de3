"""Every kind of layer that can be cut: parameters, buffers and the sizes that it notes about itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compress.errors import StageError
from compress.models.architecture import ChannelEdit
from compress.models.edits import apply_edit


def cut(layer, dimension, *keep):
    holder = nn.Sequential(layer)
    apply_edit(holder, ChannelEdit("0", dimension, keep))
    return holder[0]


def runs(layer, *shape):
    return layer(torch.randn(*shape)).shape


@pytest.mark.parametrize("bias", [True, False])
def test_convolutions(bias):
    layer = nn.Conv2d(6, 8, 3, bias=bias)
    weight = layer.weight.detach().clone()
    cut(layer, "out", 1, 4, 7)
    cut(layer, "in", 0, 5)
    assert torch.equal(layer.weight, weight[[1, 4, 7]][:, [0, 5]])
    assert (layer.out_channels, layer.in_channels) == (3, 2)
    assert runs(layer, 1, 2, 5, 5) == (1, 3, 3, 3)


def test_depthwise_convolutions_have_one_channel_axis():
    layer = nn.Conv2d(6, 6, 3, groups=6)
    bias = layer.bias.detach().clone()
    cut(layer, "out", 2, 3, 5)
    assert (layer.groups, layer.in_channels, layer.out_channels) == (3, 3, 3)
    assert torch.equal(layer.bias, bias[[2, 3, 5]])
    assert runs(layer, 1, 3, 5, 5) == (1, 3, 3, 3)


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_grouped_convolutions_keep_equally_many_of_each_group(kind):
    layer = kind(8, 4, 3, groups=2)
    cut(layer, "out", 1, 2)
    cut(layer, "in", 0, 3, 4, 5)
    assert (layer.in_channels, layer.out_channels, layer.groups) == (4, 2, 2)
    assert layer.weight.shape == ((2, 2, 3, 3) if kind is nn.Conv2d else (4, 1, 3, 3))
    assert runs(layer, 1, 4, 5, 5)[1] == 2


def test_grouped_convolutions_take_other_channels_in_each_group():
    layer = nn.Conv2d(8, 4, 1, groups=2)
    weight = layer.weight.detach().clone()
    cut(layer, "in", 0, 3, 5, 6)
    assert torch.equal(layer.weight, torch.cat([weight[:2][:, [0, 3]], weight[2:][:, [1, 2]]]))


def test_transposed_convolutions_have_their_axes_the_other_way_round():
    layer = nn.ConvTranspose2d(6, 8, 3)
    weight = layer.weight.detach().clone()
    cut(layer, "out", 1, 4)
    cut(layer, "in", 2)
    assert torch.equal(layer.weight, weight[[2]][:, [1, 4]])
    assert (layer.in_channels, layer.out_channels) == (1, 2)
    assert runs(layer, 1, 1, 4, 4)[1] == 2


def test_linear_layers():
    layer = nn.Linear(6, 8)
    cut(layer, "out", 0, 7)
    cut(layer, "in", 1, 2, 3)
    assert (layer.in_features, layer.out_features) == (3, 2)
    assert runs(layer, 4, 3) == (4, 2)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_normalization_with_its_statistics(affine):
    layer = nn.BatchNorm2d(6, affine=affine)
    layer.running_mean.copy_(torch.arange(6))
    cut(layer, "out", 1, 5)
    assert layer.num_features == 2
    assert layer.running_mean.tolist() == [1, 5]
    assert "running_mean" in layer.state_dict()
    assert runs(layer, 2, 2, 3, 3) == (2, 2, 3, 3)


@pytest.mark.parametrize(
    ("layer", "shape", "attribute"),
    [
        (nn.GroupNorm(2, 8), (1, 4, 3, 3), ("num_channels", 4)),
        (nn.LayerNorm(8), (1, 3, 4), ("normalized_shape", (4,))),
        (nn.InstanceNorm2d(8, affine=True, track_running_stats=True), (1, 4, 3, 3), ("num_features", 4)),
        (nn.PReLU(8), (1, 4, 3, 3), ("num_parameters", 4)),
    ],
)
def test_other_layers_with_a_channel_axis(layer, shape, attribute):
    cut(layer, "out", 0, 2, 5, 7)
    name, value = attribute
    assert getattr(layer, name) == value
    assert runs(layer, *shape) == shape


def test_a_slope_for_all_channels_stays():
    assert cut(nn.PReLU(), "out", 0, 1).num_parameters == 1


def test_embeddings_lose_columns():
    layer = cut(nn.Embedding(10, 6), "out", 1, 2)
    assert layer.embedding_dim == 2
    assert layer(torch.tensor([3])).shape == (1, 2)


def test_bare_parameters_are_named_by_their_own_path():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.arange(6.0).reshape(6, 1, 1), requires_grad=False)

    net = nn.Sequential(Scaled())
    apply_edit(net, ChannelEdit("0.scale", "0", (1, 4)))
    assert net[0].scale.flatten().tolist() == [1, 4]
    assert not net[0].scale.requires_grad
    assert [name for name, _ in net.named_parameters()] == ["0.scale"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (ChannelEdit("layr", "out", (0,)), "the network has no module 'layr'; did you mean 'layer'"),
        (ChannelEdit("layer", "out", (0, 9)), r"cannot keep 2 channels of 'layer' \(out\), it has 8"),
        (ChannelEdit("layer", "out", (-1,)), "cannot keep"),
        (ChannelEdit("layer", "out", (1, 1)), "cannot keep"),
        (ChannelEdit("layer", "out", ()), "cannot keep 0 channels"),
        (ChannelEdit("relu", "out", (0,)), r"channels of 'relu' \(ReLU\) cannot be cut"),
        (ChannelEdit("grouped", "in", (0, 1, 2)), "unequal channels in its 2 groups"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edit, message):
    net = nn.Sequential()
    net.layer, net.relu, net.grouped = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2)
    with pytest.raises(StageError, match=message):
        apply_edit(net, edit)
