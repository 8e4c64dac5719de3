"""The machine that measures, and how busy it is: goes with every latency."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from compress.report.model import Machine

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def describe(load_before: float | None, load_after: float | None) -> Machine:
    """This machine, with the load before and after the measurement."""
    return Machine(
        processor=processor(),
        cores=os.cpu_count() or 1,
        governor=_read(_GOVERNOR),
        load_before=load_before,
        load_after=load_after,
    )


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system gives it; the architecture where it gives none."""
    text = _read(cpuinfo) or ""
    for key in ("model name", "Model", "CPU part"):
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
