"""What every engine offers. One engine is one small file beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the file declares it.

    `scale` and `zero_point` are None for a float tensor; for int8 and uint8 `real = (stored - zero_point) * scale`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None


class Engine(Protocol):
    """A loaded model file. `run` takes and gives arrays of exactly the declared shapes and dtypes."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def delegate(self) -> str:
        """What computes inside the engine: `xnnpack`, `cpu`, ... Reported with every figure."""
        ...

    @property
    def threads(self) -> int: ...
    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Set, invoke, get. Checks shapes and dtypes (raises ContractError), converts nothing.

        The returned arrays belong to the caller: a later run does not change them.
        """
        ...
