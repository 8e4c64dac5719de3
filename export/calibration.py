"""Samples from a `.npy` file: checked once, then read through a memory map, one at a time.

They have to be what the network will see on the device, so layout, dtype and value range are checked against the
contract before anything is measured on them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_runtime.contract import Contract, ImagePreprocess
from export.errors import ConversionError
from export.layout import Samples, torch_shape

_SLACK = 1e-3
"""How far, as a share of the range of a channel, values may lie outside what the preprocessing can give."""


def open_samples(path: str, contract: Contract, purpose: str) -> Samples:
    """The samples of a `.npy` file (N, C, H, W), memory-mapped and checked.

    `purpose` (`calibration`, `parity`) begins the messages. Reads every sample once, one at a time.

    Raises:
        ConversionError: the file is missing or empty, or its dtype, layout, shape or values are not those that the
            network sees at inference; says which sample and channel, and what was expected.
    """
    try:
        samples = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise _refused(purpose, f"{Path(path).name} is no .npy file of float32 samples: {error}") from error
    _check_form(samples, contract, purpose)
    limits = _limits(contract)
    for index, sample in enumerate(samples):
        _check_values(np.asarray(sample), limits, f"{purpose}: sample {index}")
    return samples


def value_limits(spec: ImagePreprocess) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest value of each channel that the preprocessing can give for pixels from 0 to 255."""
    mean, std = np.asarray(spec.mean), np.asarray(spec.std)
    return (0.0 - mean) / std, (255.0 / spec.divide_by - mean) / std


def _check_form(samples: Samples, contract: Contract, purpose: str) -> None:
    _, *wanted = torch_shape(contract)
    if samples.dtype != np.float32:
        raise _refused(purpose, f"expected float32 samples, got {samples.dtype}")
    if list(samples.shape[1:]) != wanted:
        other = [*wanted[1:], wanted[0]]
        hint = "; these look like NHWC, NCHW is expected" if list(samples.shape[1:]) == other else ""
        raise _refused(purpose, f"expected samples of shape (N, {_joined(wanted)}), got {samples.shape}{hint}")
    if len(samples) == 0:
        raise _refused(purpose, "there are no samples")


def _check_values(sample: Samples, limits: tuple[NDArray[np.float64], ...] | None, where: str) -> None:
    if not np.isfinite(sample).all():
        raise ConversionError(f"{where} holds NaN or infinite values", "calibration")
    if limits is None:
        return
    flat = sample.reshape(len(sample), -1)
    low, high = limits
    slack = _SLACK * (high - low)
    outside = (flat.min(axis=1) < low - slack) | (flat.max(axis=1) > high + slack)
    if outside.any():
        channel = int(np.argmax(outside))
        raise ConversionError(
            f"{where} has values from {flat[channel].min():.4g} to {flat[channel].max():.4g} in channel {channel}, the "
            f"preprocessing of the contract gives {low[channel]:.4g} to {high[channel]:.4g}: were the samples "
            "normalized like images at inference?",
            "calibration",
        )


def _limits(contract: Contract) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    spec = contract.inputs[0].preprocess
    return value_limits(spec) if spec is not None else None


def _refused(purpose: str, message: str) -> ConversionError:
    return ConversionError(f"{purpose}: {message}", "calibration")


def _joined(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
