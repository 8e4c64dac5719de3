"""Rows of outputs on disk: found again, never half-written, never disturbed by another process."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

import compress.distillation.store as store_module
from compress.distillation.store import OutputStore


def ids(*numbers):
    return np.array(numbers, np.int64)


def rows(*numbers, width=3):
    return np.array(numbers, np.float32)[:, None] + np.arange(width, dtype=np.float32) / 8


def test_rows_are_found_by_sample_and_augmentation(tmp_path):
    store = OutputStore(tmp_path, 3)
    store.add(ids(1, 2, 1), ids(0, 0, 5), rows(10, 20, 15))
    values, known = store.get(ids(2, 1, 1, 3, 2), ids(0, 5, 0, 0, 5))
    assert known.tolist() == [True, True, True, False, False]
    assert np.array_equal(values[:3], rows(20, 15, 10))
    assert not values[3:].any()


def test_rows_outlive_the_store_and_are_added_to(tmp_path):
    OutputStore(tmp_path, 3).add(ids(4, 5), ids(0, 0), rows(4, 5))
    later = OutputStore(tmp_path, 3)
    later.add(ids(6), ids(0), rows(6))
    assert len(later) == 3
    values, known = later.get(ids(6, 5, 4), ids(0, 0, 0))
    assert known.all()
    assert np.array_equal(values, rows(6, 5, 4))


def test_an_empty_store_knows_nothing(tmp_path):
    values, known = OutputStore(tmp_path, 2).get(ids(0, 1), ids(0, 0))
    assert values.shape == (2, 2)
    assert not known.any()


@pytest.mark.parametrize("cut", [1, 7, 23])
def test_a_row_cut_by_a_kill_is_passed_over_and_those_before_it_are_not(tmp_path, cut):
    OutputStore(tmp_path, 3).add(ids(1, 2), ids(0, 0), rows(1, 2))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-cut])
    _, known = OutputStore(tmp_path, 3).get(ids(1, 2), ids(0, 0))
    assert known.tolist() == [True, False]


@pytest.mark.parametrize("position", range(0, 24, 3))
def test_a_row_with_a_changed_byte_is_passed_over(tmp_path, position):
    OutputStore(tmp_path, 3).add(ids(1, 2), ids(0, 0), rows(1, 2))
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(bytes(content))
    _, known = OutputStore(tmp_path, 3).get(ids(1, 2), ids(0, 0))
    assert known.tolist() == [False, True]


def test_a_file_of_zeros_holds_no_rows(tmp_path):
    """What a file system may leave behind after a power cut."""
    OutputStore(tmp_path, 3).add(ids(1), ids(0), rows(1))
    (path,) = tmp_path.iterdir()
    path.write_bytes(bytes(10 * path.stat().st_size))
    _, known = OutputStore(tmp_path, 3).get(ids(0, 1), ids(0, 0))
    assert not known.any()


def test_many_rows_are_read_from_the_file_and_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_MAP_AFTER", 10)
    store = OutputStore(tmp_path, 3)
    for start in range(0, 35, 5):
        numbers = ids(*range(start, start + 5))
        store.add(numbers, numbers % 2, rows(*numbers))
    assert len(store._recent) < 10
    everything = ids(*range(35))
    values, known = store.get(everything, everything % 2)
    assert known.all()
    assert np.array_equal(values, rows(*range(35)))


@pytest.mark.parametrize(("sample", "augmentation"), [(-1, 0), (1 << 32, 0), (0, 1 << 31), (0, -5)])
def test_ids_that_would_be_confused_with_others_are_refused(tmp_path, sample, augmentation):
    with pytest.raises(ValueError, match="ids must be from 0"):
        OutputStore(tmp_path, 3).add(ids(sample), ids(augmentation), rows(1))


def _write(folder, start):
    store = OutputStore(folder, 3)
    for number in range(start, start + 50):
        store.add(ids(number % 60), ids(0), rows(number % 60))


def test_processes_at_once_do_not_disturb_each_other(tmp_path):
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_write, args=(tmp_path, start)) for start in (0, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    everything = ids(*range(60))
    values, known = OutputStore(tmp_path, 3).get(everything, np.zeros_like(everything))
    assert known.all()
    assert np.array_equal(values, rows(*range(60)))
