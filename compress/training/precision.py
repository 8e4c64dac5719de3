"""Reduced precision: fp16 with loss scaling on CUDA, bf16 where it is asked for, fp32 otherwise."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compress.errors import StageError
from compress.training.settings import PrecisionSetting

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.optim import Optimizer

_SMALLEST_SCALE = 2.0**-14


@dataclass
class Precision:
    """`scaler` scales the loss so that small fp16 gradients do not vanish; None where nothing is scaled."""

    name: str
    device_type: str
    dtype: torch.dtype | None
    scaler: torch.amp.GradScaler | None
    skipped_steps: int = 0
    """Steps that were left out because scaled gradients overflowed; the scale is halved after each."""

    def autocast(self) -> AbstractContextManager[Any]:
        import torch

        return nullcontext() if self.dtype is None else torch.autocast(self.device_type, self.dtype)

    def backward(self, loss: Tensor) -> None:
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def unscale(self, optimizer: Optimizer) -> None:
        if self.scaler:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> bool:
        """Steps unless scaled gradients overflowed; whether it did. Raises StageError when no scale is small enough."""
        if not self.scaler:
            optimizer.step()
            return True
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        if self.scaler.get_scale() >= before:
            return True
        self.skipped_steps += 1
        if before < _SMALLEST_SCALE:
            raise StageError(f"fp16 gradients overflow at every loss scale down to {before:.1e}; use precision: fp32")
        return False


def resolve_precision(setting: PrecisionSetting, device: str) -> Precision:
    """What `auto` means on this device. Raises StageError for fp16 without CUDA."""
    import torch

    device_type = torch.device(device).type
    name = ("fp16" if device_type == "cuda" else "fp32") if setting == "auto" else setting
    if name == "fp16" and device_type != "cuda":
        raise StageError(f"precision fp16 needs a CUDA device, this run uses {device}; expected fp32, bf16 or auto")
    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
    return Precision(name, device_type, dtype, torch.amp.GradScaler(device_type) if name == "fp16" else None)
