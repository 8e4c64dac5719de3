"""The store: what is kept, how it is checked, and what happens when a byte of it is wrong."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from compress.errors import StageError
from compress.pipeline import cache
from compress.pipeline.record import DamagedRecord, Record, StoredFile
from compress.pipeline.session import session
from compress.pipeline.store import Damaged, Served, Store, default_store
from tests.pipeline.conftest import Project, digests, report

KEY = "a" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def record(key: str = KEY) -> Record:
    return Record(key, "baseline", "make", "2026-01-01T00:00:00.000Z", 1.5, ({"name": "baseline"},))


def commit(store: Store, files: dict[str, bytes], key: str = KEY) -> Served:
    attempt = store.attempt(key)
    for name, content in files.items():
        path = attempt.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return store.commit(record(key), attempt.output)


def test_a_committed_result_is_found_with_its_files(store: Store) -> None:
    commit(store, {"a.bin": b"one", "deep/b.bin": b"two"})
    with session(store) as opened:
        served = opened.find(KEY)
    assert isinstance(served, Served)
    assert (served.folder / "a.bin").read_bytes() == b"one"
    assert (served.folder / "deep/b.bin").read_bytes() == b"two"
    assert served.record.size == 6
    assert served.record.seconds == 1.5


def test_equal_files_are_stored_once(store: Store) -> None:
    commit(store, {"a": b"same", "b": b"same"})
    commit(store, {"c": b"same"}, "b" * 64)
    assert len(list((store.path / "blobs").glob("??/*"))) == 1


def test_stored_files_cannot_be_written_in_place(store: Store) -> None:
    served = commit(store, {"a": b"one"})
    assert stat.S_IMODE((served.folder / "a").stat().st_mode) == 0o444


def test_the_store_is_named_by_full_sha256(store: Store) -> None:
    commit(store, {"a": b"one"})
    (blob,) = (store.path / "blobs").glob("??/*")
    assert blob.name == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"


def test_a_changed_byte_in_a_file_is_found(store: Store) -> None:
    served = commit(store, {"weights": b"0123456789"})
    path = served.folder / "weights"
    path.chmod(0o644)
    path.write_bytes(b"0123456780")
    with session(store) as opened:
        found = opened.find(KEY)
    assert isinstance(found, Damaged)
    assert "weights" in found.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[: len(text) // 2], "not the JSON that was written"),
        (lambda text: text.replace("1.5", "1.4"), "changed after it was written"),
        (lambda text: "[]", "not the JSON that was written"),
        (lambda text: "", "not the JSON that was written"),
    ],
)
def test_a_changed_record_is_found(store: Store, change: object, reason: str) -> None:
    assert callable(change)
    commit(store, {"a": b"one"})
    path = store.record_path(KEY)
    path.write_text(change(path.read_text()))
    found = store.read(KEY)
    assert isinstance(found, Damaged)
    assert reason in found.reason


def test_a_record_under_another_key_is_not_served(store: Store) -> None:
    commit(store, {"a": b"one"})
    os.rename(store.record_path(KEY), store.record_path("b" * 64))
    found = store.read("b" * 64)
    assert isinstance(found, Damaged)
    assert "another key" in found.reason


def test_a_missing_output_folder_is_laid_out_again_from_the_blobs(store: Store) -> None:
    import shutil

    served = commit(store, {"a": b"one"})
    shutil.rmtree(served.folder)
    with session(store) as opened:
        found = opened.find(KEY)
    assert isinstance(found, Served)
    assert (found.folder / "a").read_bytes() == b"one"


def test_where_the_file_system_has_no_links_files_are_copied_and_still_checked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **options: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    served = commit(store, {"a": b"one"})
    assert (served.folder / "a").stat().st_nlink == 1
    (served.folder / "a").chmod(0o644)
    (served.folder / "a").write_bytes(b"two")
    with session(store) as opened:
        found = opened.find(KEY)
    assert isinstance(found, Served)
    assert (found.folder / "a").read_bytes() == b"one"


def test_output_that_is_no_regular_file_is_refused(store: Store) -> None:
    attempt = store.attempt(KEY)
    (attempt.output / "link").symlink_to("/etc/hostname")
    with pytest.raises(StageError, match="left link, which is not a regular file"):
        store.commit(record(), attempt.output)
    assert store.read(KEY) is None


def test_an_attempt_gets_the_state_of_the_one_before_and_an_output_folder_of_its_own(store: Store) -> None:
    first = store.attempt(KEY)
    (first.state / "epoch").write_text("3")
    (first.output / "half").write_text("x")
    second = store.attempt(KEY)
    assert not first.resumed
    assert second.resumed
    assert (second.state / "epoch").read_text() == "3"
    assert list(second.output.iterdir()) == []
    assert second.output != first.output
    assert not first.output.exists()


def test_the_state_is_gone_when_the_result_is_stored(store: Store) -> None:
    attempt = store.attempt(KEY)
    (attempt.state / "epoch").write_text("3")
    commit(store, {"a": b"one"})
    assert not store.work(KEY).exists()


def test_state_that_a_kill_left_behind_a_stored_result_goes_when_the_result_is_used(store: Store) -> None:
    commit(store, {"a": b"one"})
    (store.work(KEY) / "state").mkdir(parents=True)
    with session(store) as opened:
        assert isinstance(opened.find(KEY), Served)
    assert not store.work(KEY).exists()


def test_a_record_is_read_back_as_it_was_written() -> None:
    written = Record(
        KEY,
        "baseline",
        "make",
        "2026-01-01T00:00:00.000Z",
        0.1 + 0.2,
        ({"name": "baseline", "notes": {"snr": float("inf"), "name": "näme"}},),
        (StoredFile("a/b", "0" * 64, 3),),
        {"seed": 7},
    )
    assert Record.from_json(written.to_json()) == written


def test_a_record_of_another_version_is_not_read() -> None:
    content = json.loads(record().to_json())
    content.pop("sha256")
    content["schema"] = 2
    from compress.pipeline.files import digest_of

    with pytest.raises(DamagedRecord, match="another version"):
        Record.from_json(json.dumps({**content, "sha256": digest_of(content)}))


def test_the_store_is_found_by_variable_or_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDGEPRESS_STORE", raising=False)
    assert default_store() == tmp_path / ".edgepress"
    monkeypatch.setenv("EDGEPRESS_STORE", str(tmp_path / "elsewhere"))
    assert default_store() == tmp_path / "elsewhere"


def test_a_run_warns_of_a_damaged_result_drops_it_and_computes_it_again(project: Project) -> None:
    first = project.run()
    weights = next(project.store.path.glob("outputs/*/model/weights.safetensors"))
    weights.chmod(0o644)
    with weights.open("r+b") as file:
        file.write(b"?")
    project.forget()
    second = project.run()
    warnings = [event.message for event in project.events if event.kind == "warning"]
    assert second.computed == 1
    assert sum(project.ran.values()) == 2  # the data and one stage
    assert len(warnings) == 1
    assert "damaged: model/weights.safetensors has not the content that was stored" in warnings[0]
    assert digests(second.directory) == digests(first.directory)
    assert cache.verify(project.store.path).damaged == ()


def test_a_damaged_blob_that_two_results_share_is_replaced_for_both(project: Project) -> None:
    project.text = project.text[: project.text.index("  - id: small")]
    twin = project.text + "  - {id: twin, use: cut, from: baseline, keep: 1.0, steps: 0}\n"
    project.text = twin
    project.run()
    for path in project.store.path.glob("blobs/??/*"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert project.run().computed == 2
    assert cache.verify(project.store.path).damaged == ()


def test_a_record_that_lost_its_variants_is_computed_again(project: Project) -> None:
    from dataclasses import replace

    project.run()
    (key,) = [key for key in project.store.stored_keys() if _stage(project, key) == "small"]
    found = project.store.read(key)
    assert isinstance(found, Record)
    variant = {name: value for name, value in found.variants[0].items() if name != "contract"}
    project.store.record_path(key).write_text(replace(found, variants=(variant,)).to_json())
    result = project.run()
    assert result.computed == 1
    assert [event.stage for event in project.events if event.kind == "stage-finished"] == ["small"]
    assert report(result)["status"] == "passed"


def _stage(project: Project, key: str) -> str:
    found = project.store.read(key)
    assert isinstance(found, Record)
    return found.stage
