"""Where the INT8 kernels round: which values of a network are points, and which of them share a scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from export.points import NotTraceableError, Traced, find_points, point_values

SAMPLE = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))


class Written(nn.Module):
    """A network written as one function of its input and a convolution."""

    def __init__(self, function) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 1)
        self.function = function

    def forward(self, inputs):
        return self.function(self, inputs)


def traced(function) -> Traced:
    return find_points(Written(function).eval(), SAMPLE)


def names(function) -> list[str]:
    return [point.name for point in traced(function).points]


def groups(function) -> dict[str, str]:
    return {point.name: point.group for point in traced(function).points}


def test_the_input_and_every_layer_are_points() -> None:
    assert names(lambda net, x: net.second(net.conv(x))) == ["inputs", "conv", "second"]


@pytest.mark.parametrize("activation", [F.relu, torch.relu, F.relu6, F.hardsigmoid, lambda x: x.relu()])
def test_an_activation_function_behind_a_layer_belongs_to_it(activation) -> None:
    found = names(lambda net, x: activation(net.conv(x)))
    assert len(found) == 2
    assert "conv" not in found


def test_a_layer_that_something_else_reads_too_is_a_point_of_its_own() -> None:
    def function(net, x):
        hidden = net.conv(x)
        return F.relu(hidden) + hidden

    assert names(function) == ["inputs", "conv", "relu", "add"]


def test_moving_values_keeps_their_scale() -> None:
    function = lambda net, x: net.second(F.max_pool2d(net.conv(x), 2).flatten(1).reshape(1, 4, 4, 4))  # noqa: E731
    found = traced(function)
    assert [point.name for point in found.points] == ["inputs", "conv", "second"]
    assert found.reads["reshape"] == "conv"


def test_average_pooling_has_the_scale_of_what_it_reads_and_a_global_mean_its_own() -> None:
    pooled = groups(lambda net, x: F.avg_pool2d(net.conv(x), 2))
    assert pooled == {"inputs": "inputs", "conv": "conv", "avg_pool2d": "conv"}
    mean = groups(lambda net, x: F.adaptive_avg_pool2d(net.conv(x), 1))
    assert mean["adaptive_avg_pool2d"] == "adaptive_avg_pool2d"


def test_parts_of_a_concatenation_share_a_scale() -> None:
    found = groups(lambda net, x: torch.cat([net.conv(x), net.second(x)], 1))
    assert found == {"inputs": "inputs", "conv": "conv", "second": "conv", "cat": "conv"}


def test_the_sigmoid_has_the_scale_that_is_built_into_its_kernel() -> None:
    point = traced(lambda net, x: torch.sigmoid(net.conv(x))).points[-1]
    assert point.fixed == (1 / 256, 0)


def test_sizes_and_parameters_are_no_points() -> None:
    assert names(lambda net, x: net.conv(x).view(x.size(0), -1) + net.conv.bias[0]) == ["inputs", "conv", "add"]


def test_the_values_of_points_are_those_of_the_network() -> None:
    net = Written(lambda net, x: F.relu(net.conv(x))).eval()
    samples = SAMPLE.expand(2, -1, -1, -1).numpy() * np.asarray([1.0, 2.0], np.float32).reshape(2, 1, 1, 1)
    values = point_values(find_points(net, SAMPLE), list(samples))
    with torch.no_grad():
        np.testing.assert_allclose(values["relu"], net(torch.from_numpy(samples)).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(values["inputs"], samples)


def test_code_that_depends_on_data_cannot_be_traced() -> None:
    with pytest.raises(NotTraceableError, match="control flow"):
        traced(lambda net, x: net.conv(x) if x.sum() > 0 else x)
