import gzip
import os
import re
import time
import tracemalloc

import numpy as np
import pytest

from compress.errors import DataError
from compress.tasks.image_classification import index_cache
from compress.tasks.image_classification.sources import tar
from compress.tasks.image_classification.sources.tar import TarSettings
from compress.tasks.image_classification.task import TASK
from tests.tasks.images import encoded, members, picture, write_tar


def settings(*shards, **changes):
    values = {"shards": list(shards), "calibration": 6, "max_skipped": 0.0}
    return TarSettings.model_validate({**values, **changes})


@pytest.fixture(autouse=True)
def at_rest(monkeypatch):
    """Files count as unchanged at once, where a test does not say otherwise."""
    monkeypatch.setattr(index_cache, "_AT_REST_NS", -1)


def reads(monkeypatch):
    seen = []
    original = tar._read_shard
    monkeypatch.setattr(tar, "_read_shard", lambda path, size: seen.append(path.name) or original(path, size))
    return seen


def test_images_of_several_shards_are_read_by_offset(tmp_path):
    files = members(12, "train")
    shards = [write_tar(tmp_path / "a.tar", files[:7]), write_tar(tmp_path / "b.tar", files[7:])]
    images = settings(*shards).open(tmp_path / "cache")
    assert [record.name for record in images.records] == [name for name, _ in files]
    for index in (11, 0, 7, 6):
        assert np.array_equal(images.read(index), picture(index))


def test_split_and_class_come_from_the_path(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(2, "val") + members(1, start=5))
    records = settings(path).open(tmp_path / "cache").records
    assert [(r.split, r.class_name) for r in records] == [("validation", "cat"), ("validation", "dog"), (None, "owl")]


def test_files_that_are_no_images_are_ignored(tmp_path):
    files = [*members(2, "train"), ("train/README.txt", b"text"), ("train/cat/._0001.png", b"metadata")]
    assert len(settings(write_tar(tmp_path / "a.tar", files)).open(tmp_path / "cache").records) == 2


def test_nothing_is_unpacked_and_a_second_start_reads_no_image(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    path = write_tar(tmp_path / "data" / "a.tar", members(90, "train"))
    seen = reads(monkeypatch)
    first = TASK.prepare(settings(path), 0, tmp_path / "cache")
    second = TASK.prepare(settings(path), 0, tmp_path / "cache")
    assert seen == ["a.tar"]
    assert first.digest == second.digest
    assert os.listdir(tmp_path / "data") == ["a.tar"]
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.suffix not in ("", ".json")]


def test_one_changed_byte_changes_the_digest_though_size_and_time_are_the_same(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(90, "train", kind="BMP"))
    first = TASK.prepare(settings(path), 0, tmp_path / "cache")
    status, content = os.stat(path), bytearray(path.read_bytes())
    pixel = content.index(picture(40)[-1, :, ::-1].tobytes())  # a row of a bitmap, blue first
    content[pixel] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    second = TASK.prepare(settings(path), 0, tmp_path / "cache")
    assert first.digest != second.digest


def test_an_index_of_a_file_that_was_just_written_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(index_cache, "_AT_REST_NS", 2_000_000_000)
    path = write_tar(tmp_path / "a.tar", members(30, "train"))
    seen = reads(monkeypatch)
    settings(path).open(tmp_path / "cache")
    settings(path).open(tmp_path / "cache")
    assert seen == ["a.tar", "a.tar"]


def test_a_damaged_index_is_built_again(tmp_path, monkeypatch):
    path = write_tar(tmp_path / "a.tar", members(3, "train"))
    settings(path).open(tmp_path / "cache")
    (index,) = (tmp_path / "cache" / "indices").iterdir()
    index.write_bytes(index.read_bytes()[:50])
    assert len(settings(path).open(tmp_path / "cache").records) == 3


def test_an_image_that_changed_after_indexing_is_refused(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(3, "train"))
    images = settings(path).open(tmp_path / "cache")
    write_tar(path, members(3, "train", start=50))
    with pytest.raises(DataError, match=r"train/cat/0000.png in .* has changed since it was indexed"):
        images.read(0)


def broken(count, start=500):
    return [(f"train/cat/{i}.png", encoded(picture(i))[:120]) for i in range(start, start + count)]


def test_corrupt_images_are_skipped_counted_and_named(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(90, "train") + broken(2) + [("train/dog/text.jpg", b"hello")])
    data = TASK.prepare(settings(path, max_skipped="5%"), 0, tmp_path / "cache")
    assert sum(data.info(split).count for split in ("train", "validation", "calibration", "test")) == 90
    skipped = data.info("train").skipped
    assert [name.split(" ")[0] for name in skipped] == ["train/cat/500.png", "train/cat/501.png", "train/dog/text.jpg"]
    assert "not an image" in skipped[2]


def test_more_corrupt_images_than_allowed_are_an_error_that_names_them(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(90, "train") + broken(2))
    with pytest.raises(DataError, match=r"2 of 92 images of the train split .* max_skipped = 1.00%: train/cat/500.png"):
        TASK.prepare(settings(path, max_skipped="1%"), 0, tmp_path / "cache")


def test_a_truncated_shard_is_named_with_what_is_lost(tmp_path):
    whole = write_tar(tmp_path / "whole.tar", members(60, "train"))
    cut = write_tar(tmp_path / "cut.tar", members(60, "train", start=100))
    size = cut.stat().st_size
    cut.write_bytes(cut.read_bytes()[: size * 2 // 3])
    data = TASK.prepare(settings(whole, cut, max_skipped="50%"), 0, tmp_path / "cache")
    (skipped,) = data.info("train").skipped
    assert re.fullmatch(r"cut\.tar \(damaged after 4\d images: .*; at least 1 more lost\)", skipped)
    assert 100 < sum(data.info(split).count for split in ("train", "validation", "calibration", "test")) < 120
    with pytest.raises(DataError, match=r"50.00% of the shards are damaged, more than max_skipped = 20.00%: cut.tar"):
        TASK.prepare(settings(whole, cut, max_skipped="20%"), 0, tmp_path / "cache")


def test_a_damaged_header_does_not_end_a_shard_in_silence(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(60, "train"))
    content = bytearray(path.read_bytes())
    header = content.index(b"train/cat/0030.png")
    content[header : header + 512] = b"\x07" * 512
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"a\.tar \(damaged header after 30 images"):
        TASK.prepare(settings(path, max_skipped="10%"), 0, tmp_path / "cache")


@pytest.mark.parametrize("content", [b"", b"this is no tar" * 100])
def test_a_file_that_is_no_tar_is_an_error(tmp_path, content):
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.tar \(damaged after 0 images"):
        TASK.prepare(settings(path), 0, tmp_path / "cache")


def test_a_compressed_shard_is_an_error_that_says_what_to_do(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(gzip.compress(write_tar(tmp_path / "b.tar", members(3, "train")).read_bytes()))
    with pytest.raises(DataError, match=r"compressed \(gzip\).*decompress it once"):
        TASK.prepare(settings(path), 0, tmp_path / "cache")


def test_a_missing_shard_is_an_error_with_the_nearest_name(tmp_path):
    write_tar(tmp_path / "train.tar", members(3, "train"))
    with pytest.raises(DataError, match=r"trian.tar does not exist; did you mean 'train.tar'\?"):
        TASK.prepare(settings(tmp_path / "trian.tar"), 0, tmp_path / "cache")


def test_a_member_in_two_shards_is_an_error(tmp_path):
    paths = [write_tar(tmp_path / name, members(3, "train")) for name in ("a.tar", "b.tar")]
    with pytest.raises(DataError, match=r"train/cat/0000.png is in .*a.tar and in .*b.tar"):
        TASK.prepare(settings(*paths), 0, tmp_path / "cache")


def test_an_unknown_split_is_named(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(9, "trian"))
    with pytest.raises(DataError, match=r"trian/cat/0000.png \(expected split/class/file with a split of cali"):
        TASK.prepare(settings(path), 0, tmp_path / "cache")


def test_peak_memory_is_the_same_for_ten_times_the_images(tmp_path):
    import torch  # noqa: F401  (its import is not to be measured)

    peaks = []
    for count in (30, 300):
        path = write_tar(tmp_path / f"{count}.tar", members(count, "train", height=64, width=64))
        data = TASK.prepare(settings(path, cache="none"), 0, tmp_path / "cache")
        list(data.evaluation_batches("test", 4))
        tracemalloc.start()
        for batch in data.evaluation_batches("train", 4):
            assert batch.inputs.shape[1:] == (3, 64, 64)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_indexing_is_paid_once_even_for_many_images(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(600, "train"))
    started = time.perf_counter()
    settings(path).open(tmp_path / "cache")
    first = time.perf_counter() - started
    started = time.perf_counter()
    settings(path).open(tmp_path / "cache")
    assert time.perf_counter() - started < first / 2
