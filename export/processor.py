"""What this machine's processor can do, read from the operating system."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Processor:
    """`features` are the kernel's names: `avx2`, `avx512_vnni` on x86, `asimd`, `asimddp` (dot product) on ARM."""

    architecture: Literal["x86", "arm"]
    features: frozenset[str]


def this_processor() -> Processor:
    """The processor of this machine. Where the system has no /proc/cpuinfo only the architecture is known."""
    text = _CPUINFO.read_text(errors="replace") if _CPUINFO.exists() else ""
    return parse(text, platform.machine(), platform.system())


def parse(cpuinfo: str, machine: str, system: str = "Linux") -> Processor:
    """The processor that `cpuinfo` (the text of /proc/cpuinfo) and `machine` (as `uname -m` gives it) describe.

    Features are those of the core that has the fewest: on a mixed processor a thread may run on any core.
    """
    cores = [
        frozenset(value.split())
        for key, _, value in (line.partition(":") for line in cpuinfo.splitlines())
        if key.strip() in ("flags", "Features")
    ]
    features = frozenset.intersection(*cores) if cores else frozenset()
    arm = machine.lower().startswith(("aarch64", "arm"))
    if arm and system == "Darwin":
        features |= {"asimd", "asimddp"}  # every ARM Mac has the dot product
    return Processor("arm" if arm else "x86", features)
