"""`cache ls`, `verify`, `gc`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from compress.errors import ExitCode
from compress.pipeline import cache
from compress.pipeline.session import session
from compress.pipeline.store import Store
from tests.pipeline.conftest import STEPS, Project, digests, fork, wait
from tests.pipeline.test_store import commit

MIB = 2**20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def filled(store: Store, count: int, size: int = 1000) -> list[str]:
    """Results of `size` different bytes each, used one after the other."""
    keys = [str(number) * 64 for number in range(count)]
    for number, key in enumerate(keys):
        commit(store, {"data": bytes([number]) * size}, key)
        os.utime(store.record_path(key), (1e9 + number, 1e9 + number))
    return keys


def test_ls_names_what_is_stored_most_recently_used_first(project: Project) -> None:
    project.run()
    listing = cache.list_entries(project.store.path)
    results = [entry for entry in listing.entries if entry.kind == "result"]
    assert {entry.stage for entry in results} == {"baseline", "small", "student", "files"}
    assert [entry.last_used for entry in results] == sorted((entry.last_used for entry in results), reverse=True)
    assert not any(entry.in_use for entry in listing.entries)
    text = cache.render_listing(listing)
    assert "baseline/onnx-fp32, baseline/onnx-int8, +2" in text
    assert str(project.store.path) in text


def test_ls_touches_nothing_and_knows_an_empty_store(tmp_path: Path) -> None:
    listing = cache.list_entries(tmp_path / "none")
    assert listing.entries == ()
    assert "nothing is stored" in cache.render_listing(listing)
    assert not (tmp_path / "none").exists()


def test_ls_counts_shared_blobs_once_on_disk(store: Store) -> None:
    commit(store, {"a": b"x" * 5000}, "a" * 64)
    commit(store, {"b": b"x" * 5000}, "b" * 64)
    listing = cache.list_entries(store.path)
    assert sum(entry.size_bytes for entry in listing.entries) == 10000
    assert 5000 <= listing.size_bytes < 10000


def test_verify_finds_nothing_wrong_in_an_intact_store(project: Project) -> None:
    project.run()
    verification = cache.verify(project.store.path)
    assert verification.results == STEPS
    assert verification.blobs > STEPS
    assert verification.checked_bytes > 0
    assert verification.damaged == ()


def test_verify_drops_what_is_damaged_and_the_next_run_computes_only_that(project: Project) -> None:
    first = project.run()
    blob = max(project.store.path.glob("blobs/??/*"), key=lambda path: path.stat().st_size)
    blob.chmod(0o644)
    blob.write_bytes(b"")
    damaged = cache.verify(project.store.path).damaged
    assert len(damaged) == 1
    assert "damaged or missing" in damaged[0]
    assert cache.verify(project.store.path).damaged == ()
    second = project.run()
    assert second.computed == 1
    assert digests(second.directory) == digests(first.directory)


def test_gc_removes_the_least_recently_used_results_first(store: Store) -> None:
    keys = filled(store, 4)
    before = cache.list_entries(store.path).size_bytes
    collection = cache.gc(before - 1500, store.path)
    assert [entry.key for entry in collection.removed] == keys[:2]
    assert store.stored_keys() == tuple(keys[2:])
    assert collection.reached
    assert collection.size_bytes <= before - 1500
    assert collection.freed_bytes == before - collection.size_bytes
    assert cache.list_entries(store.path).size_bytes == collection.size_bytes
    assert cache.verify(store.path).damaged == ()


def test_being_served_counts_as_being_used(store: Store) -> None:
    keys = filled(store, 3)
    with session(store) as opened:
        opened.find(keys[0])
    cache.gc(cache.list_entries(store.path).size_bytes - 500, store.path)
    assert store.stored_keys() == (keys[0], keys[2])


def test_gc_to_zero_empties_the_store_and_it_can_be_filled_again(project: Project) -> None:
    first = project.run()
    collection = cache.gc(0, project.store.path)
    assert (collection.size_bytes, collection.reached) == (0, True)
    assert project.store.stored_keys() == ()
    second = project.run()
    assert second.computed == STEPS
    assert digests(second.directory) == digests(first.directory)


def test_gc_within_the_limit_removes_no_result(store: Store) -> None:
    keys = filled(store, 2)
    assert cache.gc(MIB, store.path).removed == ()
    assert store.stored_keys() == tuple(keys)


def test_gc_of_a_store_that_does_not_exist_does_nothing(tmp_path: Path) -> None:
    assert cache.gc(0, tmp_path / "none").reached
    assert not (tmp_path / "none").exists()


def test_a_blob_goes_only_with_the_last_result_that_needs_it(store: Store) -> None:
    commit(store, {"a": b"x" * 5000, "own": b"1"}, "a" * 64)
    commit(store, {"b": b"x" * 5000}, "b" * 64)
    os.utime(store.record_path("a" * 64), (1e9, 1e9))
    cache.gc(cache.list_entries(store.path).size_bytes - 1, store.path)
    assert store.stored_keys() == ("b" * 64,)
    assert cache.verify(store.path).damaged == ()
    assert len(list(store.path.glob("blobs/??/*"))) == 1


def test_leftovers_of_killed_commits_go_in_any_case(store: Store) -> None:
    (key,) = filled(store, 1)
    orphan = store.blob("f" * 64)
    orphan.parent.mkdir()
    orphan.write_bytes(b"x")
    (store.path / "trash/half").mkdir()
    (store.path / "trash/half/file").write_bytes(b"x")
    assert cache.gc(MIB, store.path).freed_bytes == 2
    assert not orphan.exists()
    assert list((store.path / "trash").iterdir()) == []
    assert store.stored_keys() == (key,)


def test_what_a_live_run_uses_is_never_collected(store: Store) -> None:
    keys = filled(store, 3)
    with session(store) as opened:
        opened.find(keys[0])
        collection = cache.gc(0, store.path)
        assert store.stored_keys() == (keys[0],)
        assert not collection.reached
        listing = cache.list_entries(store.path)
        assert [(entry.key, entry.in_use) for entry in listing.entries] == [(keys[0], True)]
    assert cache.gc(0, store.path).reached
    assert store.stored_keys() == ()


def test_what_a_dead_run_used_is_collected(store: Store) -> None:
    (key,) = filled(store, 1)

    def die() -> int:
        with session(store) as opened:
            opened.find(key)
            os._exit(7)

    assert wait(fork(die)) == 7
    assert len(list((store.path / "pins").iterdir())) == 2
    assert not cache.list_entries(store.path).entries[0].in_use
    assert cache.gc(0, store.path).reached
    assert list((store.path / "pins").iterdir()) == []


def test_the_state_of_a_running_attempt_is_never_collected(store: Store) -> None:
    attempt = store.attempt("a" * 64)
    (attempt.state / "epoch").write_bytes(b"x" * 1000)
    with store.locked("a" * 64):
        assert not cache.gc(0, store.path).reached
        assert (attempt.state / "epoch").exists()
        assert [entry.in_use for entry in cache.list_entries(store.path).entries] == [True]
    assert cache.gc(0, store.path).reached
    assert not attempt.state.exists()


def test_shared_by_products_are_kept_while_any_run_lives(store: Store) -> None:
    (store.shared_stages / "teacher").mkdir()
    (store.shared_stages / "teacher/outputs.npy").write_bytes(b"x" * 100)
    with session(store):
        assert not cache.gc(0, store.path).reached
        assert (store.shared_stages / "teacher/outputs.npy").exists()
    assert cache.gc(0, store.path).reached
    assert not (store.shared_stages / "teacher").exists()


def test_collecting_all_the_time_disturbs_no_run(project: Project) -> None:
    undisturbed = digests(project.run(store=project.path / "undisturbed").directory)
    pid = fork(lambda: int(project.run("stages.baseline.pause=0.1", "stages.files.pause=0.05").exit_code))
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if project.store.path.is_dir():
            cache.gc(0, project.store.path)
        time.sleep(0.01)
    result = project.run("stages.baseline.pause=0.1", "stages.files.pause=0.05")
    assert result.exit_code is ExitCode.OK
    assert digests(result.directory) == undisturbed
    (first, second) = sorted((project.path / "runs/chain").iterdir())[-2:]
    assert digests(first) == digests(second)
