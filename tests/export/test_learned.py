"""Tensors of a file are found by their values, in either layout; what has no place is named."""

from __future__ import annotations

import numpy as np
import pytest

from export.errors import ConversionError
from export.learned import Injection, Weights, match_activations, match_weights, prepare, same_values
from export.request import ActivationScale, LearnedQuantization, WeightScale
from tests.export.conftest import make_samples
from tests.export.networks import tiny

VALUES = np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)
SCALE = ActivationScale("relu", 0.5, 3)


def injection(**weights: np.ndarray) -> Injection:
    layers = tuple(Weights(name, weight, np.ones(len(weight), np.float32)) for name, weight in weights.items())
    return Injection((SCALE,), {"relu": VALUES}, layers, 64)


def test_the_same_numbers_are_found_in_either_layout_within_rounding() -> None:
    moved = VALUES.transpose(0, 2, 3, 1) * np.float32(1.00001)
    assert match_activations(injection(), {"other": VALUES + 1, "moved": moved, "same": VALUES}) == {
        "moved": SCALE,
        "same": SCALE,
    }


def test_other_numbers_and_dead_tensors_are_not_the_same() -> None:
    assert not same_values(VALUES, VALUES + 0.01 * np.abs(VALUES).max())
    assert not same_values(np.zeros_like(VALUES), np.zeros_like(VALUES))
    assert not same_values(VALUES, VALUES[:, :2])


def test_a_point_without_a_tensor_is_named() -> None:
    with pytest.raises(ConversionError, match="no tensor of the float file holds what the network computes at relu"):
        match_activations(injection(), {"other": VALUES + 1})


def test_weights_are_found_as_either_format_stores_them() -> None:
    conv, depthwise = VALUES[0][:, None], VALUES[1][:, None]
    dense = VALUES[0, 0]
    stored = {
        "conv": conv.transpose(0, 2, 3, 1),
        "depthwise": depthwise.transpose(1, 2, 3, 0),
        "dense": dense.T,
        "none": VALUES[0, 1] + 1,
    }
    found = match_weights(injection(a=conv, b=depthwise, c=dense), stored)
    assert {name: entry.layer for name, entry in found.items()} == {"conv": "a", "depthwise": "b", "dense": "c"}
    with pytest.raises(ConversionError, match="no constant of the float file is the weight of a"):
        match_weights(injection(a=conv), {"dense": dense})


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        (LearnedQuantization((ActivationScale("gelu", 1.0, 0),), (), 64), "scales were learned at gelu, which"),
        (LearnedQuantization((), (WeightScale("gone", (1.0,)),), 64), "for the layer 'gone', which is not there"),
        (
            LearnedQuantization((), (WeightScale("stem", (1.0,)),), 64),
            "'stem' has 8 channels, scales were learned for 1",
        ),
    ],
)
def test_scales_of_another_network_are_refused(learned: LearnedQuantization, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        prepare(tiny().eval().requires_grad_(False), learned, make_samples(2))
