"""Keeps freed memory with the process while it trains, instead of giving it back after every tensor.

glibc maps each block above 32 MiB anew and returns it when it is freed, so that a training step on a CPU spends a fifth
of its time in the kernel, clearing the same pages again. Peak memory grows by about a tenth. Other C libraries, and
CUDA's own allocator, are left as they are.
"""

from __future__ import annotations

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Parameters of glibc's mallopt(3)."""
_NEVER = 2**31 - 1
_GROW_BY = 64 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """Sets it for the rest of the process, once. Returns whether the C library took it."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _GROW_BY))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)
