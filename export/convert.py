"""Runs one conversion in a child process. Importing this imports no framework.

Two frameworks in one process crash each other, converters hold gigabytes and sometimes die: in a process of its own
that is an error message, and the memory is gone when it ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from export.errors import ConversionError
from export.request import ConversionAnswer, ConversionRequest
from export.wire import answer_from_json, request_to_json

_STDERR_LINES = 15
_TRACEBACK_LINES = 100
_QUIET = {
    "LITERT_TORCH_SHOW_PROGRESS": "n",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "GLOG_minloglevel": "3",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "false",
    "OMP_WAIT_POLICY": "passive",
    # Converters iterate over sets of strings: without a fixed seed, equal requests could give other bytes.
    "PYTHONHASHSEED": "0",
}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def convert(request: ConversionRequest, timeout: float | None = None, threads: int = 1) -> ConversionAnswer:
    """Converts one model to one format, in every precision asked for.

    Args:
        timeout: seconds after which the converter is killed.
        threads: threads that the converter and its libraries may use.

    Returns:
        The files, which lie in `request.output_directory` as `model-<precision>.<format>`, each with its contract
        beside it. `peak_memory_bytes` is the largest resident size of the converter process.

    Raises:
        ConversionError: the last line of the message is the cause. Operators that could not be converted are named
            with their module path, a converter that died with its signal and its last words.
    """
    with tempfile.TemporaryDirectory(prefix="edgepress-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(request_to_json(request), encoding="utf-8")
        code, output, errors = _run(path, timeout, threads)
    reply = _reply(output)
    what = f"converting {request.source.factory} to {request.format}"
    if code == 0 and reply is not None and "answer" in reply:
        return answer_from_json(reply["answer"])
    if reply is not None and "error" in reply:
        failure = ConversionError(f"{what}: {reply['error']['message']}", reply["error"]["kind"])
        failure.add_note(_last_words(errors, _TRACEBACK_LINES))  # shown with tracebacks only
        raise failure
    raise ConversionError(_last_words(errors) + f"{what}: {_death(code)}", "killed" if code < 0 else "failed")


def child_environment(threads: int) -> dict[str, str]:
    """The environment of a converter: quiet, no telemetry, no GPU, limited threads, the caller's module path."""
    paths = [entry or os.getcwd() for entry in sys.path]
    limits = dict.fromkeys(_THREADS, str(threads))
    return os.environ | _QUIET | limits | {"PYTHONPATH": os.pathsep.join(paths)}


def _run(request: Path, timeout: float | None, threads: int) -> tuple[int, bytes, bytes]:
    # -P: a folder named `export` in the working directory must not hide this package.
    command = [sys.executable, "-P", "-m", "export.worker", str(request), str(os.getpid())]
    process = subprocess.Popen(
        command,
        env=child_environment(threads),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        raise ConversionError(
            _last_words(errors) + f"the converter was stopped: it ran longer than {timeout:g} s", "timeout"
        ) from None
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, output, errors


def _reply(output: bytes) -> dict[str, Any] | None:
    """What the worker said on its way out; None when it died before it could."""
    try:
        reply = json.loads(output)
    except ValueError:
        return None
    return reply if isinstance(reply, dict) else None


def _death(code: int) -> str:
    if code >= 0:
        return f"the converter process ended with exit code {code} and gave no answer"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hints = {"SIGKILL": " (out of memory is the usual reason)", "SIGSEGV": " (a crash inside a converter library)"}
    return f"the converter process was killed by {name}{hints.get(name, '')}"


def _last_words(errors: bytes, limit: int = _STDERR_LINES) -> str:
    """The end of what a converter wrote to its standard error, as lines before the cause."""
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()][-limit:]
    return "".join(f"  | {line}\n" for line in lines)
