"""What one process needs around its stages: random state, device, memory, and an end that can be resumed."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import random
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from compress.errors import EnvironmentProblem, RecipeError

_DEVICE = re.compile(r"auto|cpu|cuda(?::(\d+))?")


def seed_everything(seed: int, packages: Iterable[str]) -> None:
    """Seeds the global generators, so that code which uses them does not depend on what ran before."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    if "torch" in sys.modules or "torch" in packages:
        import torch

        torch.manual_seed(seed)


def free_memory() -> None:
    """Gives the memory of a finished stage back to the system, so that peaks don't add up over stages.

    Tensors in reference cycles look small to the collector and would stay; without torch there are none.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library than glibc has no malloc_trim
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def check_device(device: str) -> None:
    """Raises RecipeError for a text that names no device. Imports no framework."""
    if _DEVICE.fullmatch(device) is None:
        raise RecipeError([f"unknown device '{device}'; expected auto, cpu, cuda or cuda:N"])


def resolve_device(device: str) -> str:
    """`cpu`, `cuda` or `cuda:N`; `auto` is CUDA where there is one. Raises EnvironmentProblem for a missing device."""
    if device == "cpu" or (device == "auto" and importlib.util.find_spec("torch") is None):
        return "cpu"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if count else "cpu"
    match = _DEVICE.fullmatch(device)
    index = int(match.group(1) or 0) if match is not None else 0
    if index >= count:
        raise EnvironmentProblem(f"device {device} was asked for, but torch finds {count} CUDA devices")
    return device


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the block like Ctrl-C does, by KeyboardInterrupt. Without effect outside of the main thread."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
