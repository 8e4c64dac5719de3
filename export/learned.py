"""Gives the tensors of a float file the scales that were learned for the points of its torch network.

Converters rename, merge and move; values stay. So tensors are found by value: both sides run on the same samples, and
a tensor of the file belongs to a point when it holds the same numbers, in the order of either layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from export.errors import ConversionError
from export.layout import Samples
from export.points import NotTraceableError, Traced, find_points, point_values
from export.request import ActivationScale, LearnedQuantization

Values = NDArray[np.float32]

_TOLERANCE = 1e-3
"""Share of the largest value by which the same tensor may differ between torch and a file."""
PROBES = 4
"""Samples that values are compared on."""
_SHOWN = 5


@dataclass(frozen=True)
class Weights:
    """A layer's weight in torch's order, output channels first (O, ...), and the scale of each channel (O,)."""

    layer: str
    weight: Values
    scales: Values


@dataclass(frozen=True)
class Injection:
    """The learned scales beside the values by which their tensors are found. `levels`: largest integer of a weight."""

    activations: tuple[ActivationScale, ...]
    values: Mapping[str, Values]
    weights: tuple[Weights, ...]
    levels: int


@dataclass(frozen=True)
class Learned:
    """Learned scales, and the samples, as the file takes them, that their values were computed on."""

    injection: Injection
    probes: tuple[NDArray[np.float32], ...]


def prepare(module: nn.Module, learned: LearnedQuantization, parity: Samples) -> Injection:
    """Computes the values of every point; `module` has its normalizations folded.

    Raises ConversionError when the network is not the one that the scales were learned for.
    """
    probes = list(parity[:PROBES])
    try:
        traced = find_points(module, torch.from_numpy(np.array(probes[0][None])))
    except NotTraceableError as error:
        raise ConversionError(f"the network cannot be traced to place its learned scales: {error}") from error
    _check_points(traced, learned)
    weights = []
    for entry in learned.weights:
        try:
            weight = module.get_parameter(f"{entry.layer}.weight").detach().numpy()
        except AttributeError as error:
            raise ConversionError(f"scales were learned for the layer '{entry.layer}', which is not there") from error
        if len(weight) != len(entry.scales):
            raise ConversionError(
                f"the layer '{entry.layer}' has {len(weight)} channels, scales were learned for {len(entry.scales)}"
            )
        weights.append(Weights(entry.layer, weight, np.asarray(entry.scales, np.float32)))
    return Injection(learned.activations, point_values(traced, probes), tuple(weights), learned.weight_levels)


def match_activations(injection: Injection, tensors: Mapping[str, Values]) -> dict[str, ActivationScale]:
    """The learned scale of each tensor (N, ...) of the file that holds the values of a point, by the tensor's name.

    Raises ConversionError that names the points without a tensor.
    """
    found: dict[str, ActivationScale] = {}
    missing = []
    for entry in injection.activations:
        names = [name for name, values in tensors.items() if same_values(injection.values[entry.point], values)]
        found |= dict.fromkeys(names, entry)
        if not names:
            missing.append(entry.point)
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise ConversionError(
            f"no tensor of the float file holds what the network computes at {', '.join(missing[:_SHOWN])}{more}, so "
            "the scales learned there have no place"
        )
    return found


def match_weights(injection: Injection, constants: Mapping[str, Values]) -> dict[str, Weights]:
    """The layer of each constant of the file that holds its weight, by the constant's name.

    Raises ConversionError that names the layers without one.
    """
    found: dict[str, Weights] = {}
    missing = []
    for entry in injection.weights:
        names = [name for name, values in constants.items() if _same_weight(entry.weight, values)]
        found |= dict.fromkeys(names, entry)
        if not names:
            missing.append(entry.layer)
    if missing:
        raise ConversionError(f"no constant of the float file is the weight of {', '.join(missing[:_SHOWN])}")
    return found


def same_values(reference: Values, values: Values) -> bool:
    """True for the same numbers, whether (N, C, H, W) lies as it is or as (N, H, W, C)."""
    if reference.size != values.size or len(reference) != len(values):
        return False
    orders = [reference]
    if reference.ndim == 4 and values.ndim == 4:
        orders.append(reference.transpose(0, 2, 3, 1))
    return any(_close(order.reshape(-1), values.reshape(-1)) for order in orders)


def _same_weight(weight: Values, values: Values) -> bool:
    """Layers keep (O, I, H, W); TFLite stores (O, H, W, I), and depthwise weights as (1, H, W, O).

    A matrix may also lie as (I, O).
    """
    if weight.size != values.size:
        return False
    orders = [weight]
    if weight.ndim == 4 and values.ndim == 4:
        orders += [weight.transpose(0, 2, 3, 1), weight.transpose(1, 2, 3, 0)]
    if weight.ndim == 2:
        orders.append(weight.T)
    return any(order.shape == values.shape and np.array_equal(order, values) for order in orders)


def _close(first: Values, second: Values) -> bool:
    largest = float(np.abs(first).max(initial=0.0))
    return largest > 0 and float(np.abs(first - second).max(initial=0.0)) <= _TOLERANCE * largest


def _check_points(traced: Traced, learned: LearnedQuantization) -> None:
    known = {point.name for point in traced.points}
    unknown = [entry.point for entry in learned.activations if entry.point not in known]
    if unknown:
        raise ConversionError(
            f"scales were learned at {', '.join(unknown[:_SHOWN])}, which this network does not have: was its code "
            "changed after it was trained?"
        )
