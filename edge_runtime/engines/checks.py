"""What every engine checks: the model file before it is opened, the arrays before each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edge_runtime.engines.protocol import Array, TensorInfo
from edge_runtime.errors import ContractError, ModelFileError, ModelFileMissingError


def existing(path: str | Path) -> Path:
    """The path of a readable, non-empty model file, or ModelFileError."""
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, expected a model file")
    if not path.exists():
        raise ModelFileMissingError(f"no model file at {path}")
    if path.stat().st_size == 0:
        raise ModelFileError(f"{path} is empty")
    return path


def one_line(error: BaseException) -> str:
    """An engine's own words on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """True when an array's shape matches the declared one; -1 stands for any size."""
    return len(shape) == len(declared) and all(want in (-1, got) for got, want in zip(shape, declared, strict=True))


def check_arrays(tensors: Sequence[TensorInfo], arrays: Sequence[Array]) -> None:
    """Raises ContractError unless the arrays have exactly the declared number, shapes and dtypes."""
    if len(arrays) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors)
        raise ContractError(f"the model takes {len(tensors)} inputs ({names}), got {len(arrays)}")
    for tensor, array in zip(tensors, arrays, strict=True):
        if array.shape != tensor.shape and not fits(array.shape, tensor.shape):
            raise ContractError(f"input '{tensor.name}' has shape {tensor.shape}, got {array.shape}")
        if array.dtype != tensor.dtype:
            raise ContractError(f"input '{tensor.name}' is {tensor.dtype}, got {array.dtype}")
