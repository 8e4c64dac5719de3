"""Float to stored integers and back, the one place where scale and zero point are applied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.protocol import Array, TensorInfo
from edge_runtime.errors import ContractError, ModelFileError

QUANTIZED = ("int8", "uint8")


@dataclass(frozen=True)
class Quantization:
    """`real = (stored - zero_point) * scale`, for one input or output; `dtype` is int8 or uint8."""

    dtype: str
    scale: float
    zero_point: int


def checked(name: str, dtype: str, scale: float, zero_point: int) -> Quantization:
    """A usable quantization, or ModelFileError: scale zero, negative or not finite, zero point outside the dtype."""
    if not (math.isfinite(scale) and scale > 0):
        raise ModelFileError(f"'{name}' is {dtype} with scale {scale}; a scale has to be a finite number above 0")
    limits = np.iinfo(dtype)
    if not limits.min <= zero_point <= limits.max:
        raise ModelFileError(f"'{name}' is {dtype} with zero point {zero_point}, outside {limits.min} to {limits.max}")
    return Quantization(dtype, float(scale), int(zero_point))


def of_tensor(tensor: TensorInfo) -> Quantization | None:
    """How a tensor is quantized; None for float and for indices (int32, int64).

    Raises ModelFileError for an int8 or uint8 tensor whose file gives no scale: its numbers have no meaning.
    """
    if tensor.dtype not in QUANTIZED:
        return None
    if tensor.scale is None or tensor.zero_point is None:
        raise ModelFileError(f"'{tensor.name}' is {tensor.dtype}, and the file gives no scale and zero point for it")
    return checked(tensor.name, tensor.dtype, tensor.scale, tensor.zero_point)


def quantize(values: NDArray[np.floating[Any]], quantization: Quantization) -> Array:
    """Rounds half to even and saturates, in float32 as the engines do. Raises ContractError for NaN or infinity."""
    if not np.isfinite(values).all():
        raise ContractError("input holds NaN or infinite values")
    stored = np.divide(values, np.float32(quantization.scale), dtype=np.float32)
    np.rint(stored, out=stored)
    stored += np.float32(quantization.zero_point)
    limits = np.iinfo(quantization.dtype)
    np.clip(stored, limits.min, limits.max, out=stored)
    return cast(Array, stored.astype(quantization.dtype))


def dequantize(stored: Array, quantization: Quantization) -> NDArray[np.float32]:
    """The real values, float32, of the same shape."""
    shifted = stored.astype(np.float32)
    shifted -= np.float32(quantization.zero_point)
    shifted *= np.float32(quantization.scale)
    return shifted
