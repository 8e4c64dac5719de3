from __future__ import annotations

import subprocess
import sys

import pytest

_FAULTS = """
import ctypes, resource
import numpy as np
{prepare}
for _ in range(5):
    np.ones(6_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(6_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(prepare: str) -> int:
    """Pages that the kernel had to hand out while the same 48 MB were taken and freed 20 times."""
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS.format(prepare=prepare)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_memory_that_was_freed_is_used_again_without_the_kernel() -> None:
    kept = faults("from compress.training.allocator import keep_freed_memory; assert keep_freed_memory()")
    given_back = faults("")
    assert kept < given_back / 10
