"""Between the layout of torch, NCHW, and that of a file. Imports numpy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_runtime.contract import Contract

Samples = NDArray[np.float32]


def torch_shape(contract: Contract) -> tuple[int, ...]:
    """The shape of the input that the torch module takes, with batch: NCHW whatever the file's layout."""
    spec = contract.inputs[0]
    if spec.layout != "NHWC":
        return spec.shape
    batch, height, width, channels = spec.shape
    return batch, channels, height, width


def file_input(contract: Contract, sample: Samples) -> Samples:
    """One sample (C, H, W) as the file takes it: with batch, in the file's layout, contiguous."""
    batch = sample[None]
    if contract.inputs[0].layout == "NHWC":
        batch = batch.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(batch, dtype=np.float32)
