from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from export import worker
from export.convert import child_environment
from export.errors import ConversionError
from tests.export.conftest import make_request


def _run(*arguments: str) -> tuple[int, dict]:  # type: ignore[type-arg]
    command = [sys.executable, "-P", "-m", "export.worker", *arguments]
    done = subprocess.run(command, capture_output=True, env=child_environment(1), check=False)
    return done.returncode, json.loads(done.stdout)


def test_a_request_that_is_none_is_answered_as_json(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text("{}")
    code, reply = _run(str(path))
    assert code == 2
    assert reply["error"]["kind"] == "bad-request"
    assert "not a conversion request" in reply["error"]["message"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_found_behind_other_errors(tmp_path: Path, number: int) -> None:
    request = make_request(tmp_path)
    try:
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            raise RuntimeError("could not save the model") from error
    except RuntimeError as error:
        failure = worker.as_conversion_error(error, request)
    assert failure.kind == "disk-full"
    assert str(failure).startswith(f"no space to write files in {request.output_directory}, ")
    assert str(failure).endswith(os.strerror(number))


def test_other_errors_keep_their_words(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    assert str(worker.as_conversion_error(ValueError("odd"), request)) == "ValueError: odd"
    assert worker.as_conversion_error(MemoryError(), request).kind == "failed"
    error = ConversionError("known", "parity")
    assert worker.as_conversion_error(error, request) is error


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_is_this_process_own_not_that_of_its_parent() -> None:
    ballast = b"x" * 300_000_000
    code = "from export.worker import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1e6 < int(done.stdout) < 150e6 < len(ballast)
