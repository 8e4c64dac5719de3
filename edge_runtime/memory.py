"""Peak memory of a model, measured in a fresh process that does nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.errors import EngineError


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of resident memory. `before` is the peak with interpreter, numpy and engine loaded, before the model."""

    peak: int
    before: int


def peak_memory(model_path: str | Path, engine: str | None = None, threads: int = 1, timeout: float = 300.0) -> int:
    """Peak resident bytes of a fresh process that loads the file and runs it; see `measure_memory`."""
    return measure_memory(model_path, engine, threads, timeout).peak


def measure_memory(
    model_path: str | Path, engine: str | None = None, threads: int = 1, timeout: float = 300.0
) -> MemoryUse:
    """Runs `python -m edge_runtime memory` in a child process and reads its answer.

    Raises EngineError with the child's last words when it failed, was killed, or took longer than `timeout` seconds.
    """
    command = [sys.executable, "-m", "edge_runtime", "memory", str(Path(model_path).resolve())]
    command += ["--threads", str(threads), "--json"]
    command += ["--engine", engine] if engine else []
    # The child has to find this package where the parent found it, installed or not.
    paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    try:
        child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"measuring the memory of {model_path} took more than {timeout:g} s") from error
    if child.returncode != 0:
        raise EngineError(f"measuring the memory of {model_path} failed: {_cause(child)}")
    answer = json.loads(child.stdout)
    return MemoryUse(peak=answer["peak_memory_bytes"], before=answer["before_model_bytes"])


def _cause(child: subprocess.CompletedProcess[str]) -> str:
    if child.returncode < 0:
        return f"killed by {signal.Signals(-child.returncode).name}"
    lines = child.stderr.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"exit status {child.returncode}"


def process_peak() -> int:
    """Peak resident bytes of this process so far."""
    try:
        # Not ru_maxrss: Linux hands the parent's peak on to a child that it forks.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    maximum = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return maximum if sys.platform == "darwin" else maximum * 1024
