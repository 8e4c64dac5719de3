"""URLs of storages, and storages that do not answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.tune.conftest import free_port
from tests.tune.toys import settings
from tune.errors import StorageUnreachable, UsageError
from tune.proxies import Refused
from tune.storage import open_storage, parse_url
from tune.study import create, open_study


@pytest.mark.parametrize(
    ("url", "kind", "path"),
    [
        ("a/b.journal", "journal", "a/b.journal"),
        ("journal:a/b.log", "journal", "a/b.log"),
        ("sqlite:///a/b.db", "rdb", "a/b.db"),
        ("sqlite:////a/b.db", "rdb", "/a/b.db"),
        ("postgresql://u@h/d", "rdb", None),
        ("postgresql+psycopg2://u@h/d", "rdb", None),
        ("grpc://h:13000", "grpc", None),
    ],
)
def test_a_url_names_a_kind_of_storage(url: str, kind: str, path: str | None) -> None:
    place = parse_url(url)
    assert (place.kind, place.path) == (kind, Path(path) if path else None)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgres://u@h/d", "unknown kind of storage 'postgres:'; did you mean 'postgresql'?"),
        ("http://h", "unknown kind of storage 'http:'; expected one of"),
        ("sqlite:a.db", "expected sqlite:// in front"),
        ("grpc://h", "expected grpc://host:port"),
        ("grpc://h:99999", "expected grpc://host:port"),
        ("", "expected the path of a journal file or a URL"),
    ],
)
def test_a_wrong_url_says_what_was_expected(url: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_url(url)
    assert message in str(raised.value)


def test_a_password_is_not_shown() -> None:
    assert str(parse_url("postgresql://user:secret@host/db")) == "postgresql://user:***@host/db"


@pytest.mark.parametrize("scheme", ["postgresql://u@127.0.0.1:{}/d", "grpc://127.0.0.1:{}"])
def test_a_storage_that_does_not_answer_is_asked_again_and_then_ends_with_how_to_go_on(scheme: str) -> None:
    started = time.monotonic()
    with pytest.raises(StorageUnreachable) as raised:
        open_storage(scheme.format(free_port()), patience=1.0)
    assert 0.5 < time.monotonic() - started < 15
    assert raised.value.exit_code == 5
    assert "the same command goes on from there once it answers" in str(raised.value)


def test_a_storage_that_vanishes_while_it_is_used_is_unreachable(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    storage = open_storage(folder / "toy.journal", patience=0.5)
    create(storage, settings(trials=1))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(StorageUnreachable, match="does not answer"):
        open_study(storage)


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name a file in it"):
        open_storage(tmp_path)


def test_reading_makes_no_file_and_names_what_is_there(tmp_path: Path) -> None:
    create(open_storage(tmp_path / "study.journal"), settings(trials=1))
    with pytest.raises(UsageError, match=r"did you mean '.*study\.journal'"):
        open_storage(tmp_path / "stuby.journal", read_only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["study.journal"]


@pytest.mark.parametrize("url", ["{}/toy.journal", "sqlite:///{}/toy.db"])
def test_a_storage_open_for_reading_refuses_to_write(url: str, tmp_path: Path) -> None:
    create(open_storage(url.format(tmp_path)), settings(trials=2))
    study = open_study(open_storage(url.format(tmp_path), read_only=True)).study
    assert len(study.trials) == 2
    with pytest.raises(Refused):
        study.set_user_attr("a", 1)
    with pytest.raises(Refused):
        study.ask()
