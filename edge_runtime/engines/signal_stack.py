"""Keeps a library from leaving this thread a signal stack that it frees later.

OpenVINO's CPU plug-in registers an alternate signal stack when it compiles a model and unmaps it when it is unloaded,
without taking it back (see sigaltstack(2)). Python runs its signal handlers on that stack, so that Ctrl-C or SIGTERM
would then end the process by a segmentation fault instead of a clean stop.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_DISABLED = 2  # SS_DISABLE


class _Stack(ctypes.Structure):
    """`stack_t` of Linux."""

    _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def signal_stack_kept() -> Iterator[None]:
    """Gives this thread its alternate signal stack back after the block; without effect outside of Linux."""
    if sys.platform != "linux":
        yield
        return
    libc = ctypes.CDLL(None)
    before = _Stack()
    libc.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        # Refused where the processor's state has grown too large for it: then handlers run on the ordinary stack.
        if libc.sigaltstack(ctypes.byref(before), None) != 0:
            libc.sigaltstack(ctypes.byref(_Stack(None, _DISABLED, 0)), None)


def signal_stack() -> tuple[int | None, int]:
    """Address and bytes of this thread's alternate signal stack on Linux; (None, 0) where there is none."""
    stack = _Stack()
    ctypes.CDLL(None).sigaltstack(None, ctypes.byref(stack))
    return (None, 0) if stack.flags & _DISABLED else (stack.address, stack.size)
