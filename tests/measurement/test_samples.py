from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compress.errors import StageError
from compress.measurement.samples import NpyWriter, in_layout, write_samples
from tests.measurement.fake_data import CONTRACT, LABELS, FakeData


def test_samples_are_those_of_the_split_and_readable_through_a_memory_map(tmp_path: Path) -> None:
    data = FakeData({"calibration": 100})
    path, card = write_samples(data, CONTRACT, "calibration", 100, tmp_path / "c.npy")
    stored = np.load(path, mmap_mode="r")
    np.testing.assert_array_equal(stored, data.inputs("calibration"))
    assert stored.dtype == np.float32
    assert card.count == 100


def test_fewer_samples_are_spread_over_the_split_so_that_no_class_is_left_out(tmp_path: Path) -> None:
    """A split sorted by class: its first 8 samples would be of one class."""
    data = FakeData({"calibration": 200}, sorted_by_class=True)
    _, card = write_samples(data, CONTRACT, "calibration", 8, tmp_path / "c.npy")
    assert card.count == 8
    assert card.per_class == dict.fromkeys(LABELS, 2)


def test_samples_keep_no_step_with_a_pattern_in_the_split(tmp_path: Path) -> None:
    """Classes alternate and every fourth sample is wanted: evenly spaced ones would all be of one class."""
    _, card = write_samples(FakeData({"calibration": 400}), CONTRACT, "calibration", 100, tmp_path / "c.npy")
    assert card.count == 100
    assert min(card.per_class.values()) > 10


def test_the_card_records_what_was_really_used(tmp_path: Path) -> None:
    """Asked for 500 of a split of 90: the card says 90, and which."""
    data = FakeData({"calibration": 90})
    path, card = write_samples(data, CONTRACT, "calibration", 500, tmp_path / "c.npy")
    inputs = np.load(path)
    assert card.count == len(inputs) == len(card.sample_ids) == 90
    assert card.sample_ids == tuple(range(1000, 1090))
    assert sum(card.per_class.values()) == 90
    assert card.channel_minimum == pytest.approx(inputs.min(axis=(0, 2, 3)).tolist())
    assert card.channel_maximum == pytest.approx(inputs.max(axis=(0, 2, 3)).tolist())
    assert card.channel_mean == pytest.approx(inputs.mean(axis=(0, 2, 3)).tolist(), abs=1e-5)
    assert card.split == "calibration"
    assert data.read == {"calibration"}


def test_a_pool_keeps_a_large_split_from_being_read_whole(tmp_path: Path) -> None:
    _, card = write_samples(FakeData({"validation": 400}), CONTRACT, "validation", 10, tmp_path / "p.npy", pool=40)
    assert card.count == 10
    assert max(card.sample_ids) < 2000 + 40


def test_samples_that_could_not_be_read_make_the_file_shorter_and_are_named(tmp_path: Path) -> None:
    data = FakeData({"calibration": 60}, lost=("broken.png", "cut.png"))
    path, card = write_samples(data, CONTRACT, "calibration", 60, tmp_path / "c.npy")
    assert np.load(path).shape[0] == card.count == 58
    assert card.skipped == ("broken.png", "cut.png")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.transpose(0, 2, 3, 1), "channels first"),
        (lambda x: x[:, :1], "channels first"),
        (lambda x: x.astype(np.float64), "float64"),
        (lambda x: x * 255, "outside what the contract's preprocessing gives"),
        (lambda x: np.where(x > x.mean(), np.nan, x).astype(np.float32), "NaN"),
    ],
    ids=["channels last", "one channel", "float64", "not normalized", "NaN"],
)
def test_samples_that_inference_would_not_see_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    data = FakeData({"calibration": 40}, change=change)
    with pytest.raises(StageError, match=message):
        write_samples(data, CONTRACT, "calibration", 40, tmp_path / "c.npy")
    assert not list(tmp_path.iterdir())


def test_a_class_absent_from_calibration_is_an_error_that_names_it(tmp_path: Path) -> None:
    data = FakeData({"calibration": 40}, only=(0, 2), claims_all=True)
    with pytest.raises(StageError, match="b, d"):
        write_samples(data, CONTRACT, "calibration", 40, tmp_path / "c.npy")


def test_an_empty_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="gave no sample"):
        write_samples(FakeData({"calibration": 0}), CONTRACT, "calibration", 8, tmp_path / "c.npy")


def test_memory_does_not_grow_with_the_number_of_samples(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        write_samples(FakeData({"calibration": count}, size=32), CONTRACT_32, "calibration", count, tmp_path / "c.npy")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(64)
    assert peak(64 * 16) < peak(64 * 4) * 1.5


CONTRACT_32 = FakeData.contract(32)


def test_the_writer_leaves_nothing_behind_when_it_is_interrupted(tmp_path: Path) -> None:
    def interrupted() -> None:
        with NpyWriter(tmp_path / "x.npy", (2,), 10) as writer:
            writer.append(np.zeros((1, 2), np.float32))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("expected", [0, 9, 99999])
def test_the_header_holds_the_real_count_whatever_was_expected(tmp_path: Path, expected: int) -> None:
    with NpyWriter(tmp_path / "x.npy", (2, 3), expected) as writer:
        for _ in range(12):
            writer.append(np.ones((1, 2, 3), np.float32))
    assert np.load(tmp_path / "x.npy").shape == (12, 2, 3)


def test_layout_moves_shape_and_name_of_the_axes_together_and_back() -> None:
    nhwc = in_layout(CONTRACT, "NHWC")
    assert (nhwc.inputs[0].shape, nhwc.inputs[0].layout) == ((1, 4, 4, 3), "NHWC")
    assert in_layout(nhwc, "NCHW") == CONTRACT
    assert in_layout(CONTRACT, "NCHW") == CONTRACT
