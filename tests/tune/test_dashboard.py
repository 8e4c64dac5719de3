"""The dashboard shows a study and can neither change nor lock it."""

from __future__ import annotations

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tune.toys import settings, steps
from tune.dashboard import make_server
from tune.errors import UsageError
from tune.storage import open_storage
from tune.study import create
from tune.trial import Trial, Work
from tune.worker import Options, work

pytest.importorskip("optuna_dashboard")


@contextmanager
def shown(url: str, artifacts: Path | None = None) -> Iterator[str]:
    server = make_server(url, "127.0.0.1", 0, artifacts)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.loads(answer.read())


def attaching(trial: Trial) -> dict[str, float]:
    report = trial.folder / "report.md"
    report.write_text("# report\n")
    trial.attach(report)
    return steps(trial)


@pytest.mark.parametrize("url", ["{}/toy.journal", "sqlite:///{}/toy.db"])
def test_trials_curves_and_artifacts_are_shown_while_a_worker_writes(url: str, tmp_path: Path) -> None:
    url = url.format(tmp_path)
    study = create(open_storage(url), settings(trials=3))
    with shown(url, tmp_path / "toy" / "artifacts") as address:
        work(study, Work(attaching), Options(tmp_path))
        summary = get(f"{address}/api/studies")["study_summaries"][0]
        assert summary["study_name"] == "toy"
        detail = get(f"{address}/api/studies/{summary['study_id']}")
        assert [trial["state"] for trial in detail["trials"]] == ["Complete"] * 3
        assert len(detail["trials"][0]["intermediate_values"]) == 5
        assert any("artifacts" in json.dumps(trial) for trial in detail["trials"])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_request_that_would_change_something_is_refused(method: str, tmp_path: Path) -> None:
    study = create(open_storage(tmp_path / "toy.journal"), settings(trials=1))
    before = (tmp_path / "toy.journal").read_bytes()
    with shown(str(tmp_path / "toy.journal")) as address:
        request = urllib.request.Request(f"{address}/api/studies/0", method=method, data=b"{}")
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=20)
    assert raised.value.code == 403
    assert (tmp_path / "toy.journal").read_bytes() == before
    assert len(study.study.trials) == 1


def test_a_dashboard_over_sqlite_does_not_lock_the_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/toy.db"
    create(open_storage(url), settings(trials=1))
    with shown(url) as address:
        get(f"{address}/api/studies")
        writer = sqlite3.connect(tmp_path / "toy.db", timeout=0.1)
        writer.execute("BEGIN EXCLUSIVE")  # fails at once when anybody holds a lock
        get(f"{address}/api/studies")
        writer.rollback()
        writer.close()


def test_a_storage_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no study at"):
        make_server(str(tmp_path / "toy.journal"), "127.0.0.1", 0)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    create(open_storage(tmp_path / "toy.journal"), settings(trials=1))
    with shown(str(tmp_path / "toy.journal")) as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(UsageError, match=f"127.0.0.1:{port} cannot be used"):
            make_server(str(tmp_path / "toy.journal"), "127.0.0.1", port)
