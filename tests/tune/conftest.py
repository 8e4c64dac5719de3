"""Storages of every kind: files, PostgreSQL and the gRPC proxy, started for the session where they are installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tune.toys import ROOT, until

pytest.importorskip("optuna")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a new PostgreSQL server on loopback; skips where Debian's `postgresql` is not installed."""
    pytest.importorskip("psycopg")
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *filter(None, [_folder_of("postgres")])]
    if not folders or (shutil.which("runuser") is None and os.geteuid() == 0):
        pytest.skip("PostgreSQL is not installed")
    programs, base = folders[-1], tmp_path_factory.mktemp("postgres")
    port = free_port()
    as_user = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(base, "postgres")
        for parent in base.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o055)
        as_user = ["runuser", "-u", "postgres", "--"]
    data = base / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": base}
    subprocess.run(
        [*as_user, programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], check=True, **quiet
    )
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={base} -c fsync=off"
    start = [*as_user, programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", base / "log", "start"]
    subprocess.run(start, check=True, **quiet)
    yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    subprocess.run([*as_user, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], check=False, **quiet)


def _folder_of(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found).resolve().parent if found else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """The URL of a gRPC proxy over a journal file."""
    port = free_port()
    command = [sys.executable, "-m", "tune", "proxy", str(tmp_path / "behind.journal"), "--port", str(port)]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"grpc://127.0.0.1:{port}"
        until(lambda: _listens(port))
        yield f"grpc://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
    except OSError:
        time.sleep(0.05)
        return False
    return True
