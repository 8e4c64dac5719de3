"""The converter process: `python -m export.worker REQUEST.json` prints an answer or an error as JSON and ends.

It converts the model once, derives every precision from that float file, checks each, and only then moves the files
to where they were asked for: an output directory holds checked files or none.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib.metadata
import json
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import IO

from export.errors import ConversionError
from export.request import ConversionAnswer, ConversionRequest
from export.wire import answer_to_json, request_from_json

_PR_SET_PDEATHSIG = 1
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PACKAGES = {
    "onnx": ("torch", "onnx", "onnxscript", "onnxslim", "onnxruntime"),
    "tflite": ("torch", "litert-torch", "litert-quantizer", "ai-edge-litert"),
}


def main(arguments: list[str]) -> int:
    """Answers on the real standard output alone: whatever libraries print goes to standard error."""
    reply = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if len(arguments) > 1:
        _die_with_parent(int(arguments[1]))
    try:
        request = request_from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return _say(reply, {"error": {"kind": "bad-request", "message": str(error)}}, 2)
    try:
        answer = run(request)
    except Exception as error:  # whatever a converter raises becomes a message
        traceback.print_exc()
        failure = as_conversion_error(error, request)
        return _say(reply, {"error": {"kind": failure.kind, "message": str(failure)}}, 1)
    return _say(reply, {"answer": json.loads(answer_to_json(answer))}, 0)


def run(request: ConversionRequest) -> ConversionAnswer:
    """Does the whole request in this process. Raises ConversionError, or what a converter raises."""
    started = time.monotonic()
    from export.pipeline import convert_all  # here, so that a bad request is answered before frameworks load

    # Tracing makes millions of small objects that live to the end: collecting them takes a tenth of the time.
    gc.disable()
    files = convert_all(request)
    return ConversionAnswer(
        files=files,
        peak_memory_bytes=peak_memory(),
        seconds=round(time.monotonic() - started, 3),
        versions={name: importlib.metadata.version(name) for name in _PACKAGES[request.format]},
    )


def as_conversion_error(error: Exception, request: ConversionRequest) -> ConversionError:
    """What happened, as one message for the user."""
    if isinstance(error, ConversionError):
        return error
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return _disk_full(cause, request)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, MemoryError):
        return ConversionError("the converter ran out of memory", "failed")
    return ConversionError(f"{type(error).__name__}: {error}".strip(), "failed")


def peak_memory() -> int:
    """Largest resident size of this process, bytes. Linux only; 0 elsewhere.

    `ru_maxrss` would be wrong here: a child inherits the peak of the process that started it.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _disk_full(error: OSError, request: ConversionRequest) -> ConversionError:
    directory = request.output_directory
    try:
        free = f", {shutil.disk_usage(directory).free / 1e6:.1f} MB are free"
    except OSError:
        free = ""
    return ConversionError(f"no space to write files in {directory}{free}: {error.strerror}", "disk-full")


def _say(reply: IO[str], message: object, code: int) -> int:
    with reply:
        json.dump(message, reply)
    return code


def _die_with_parent(parent: int) -> None:
    """Asks Linux to kill this process when its parent dies: nobody would wait for the answer any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # Teardown of the frameworks' native parts takes seconds and has nothing left to do.
    os._exit(code)
