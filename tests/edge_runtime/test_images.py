from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import MissingPackageError, UsageError
from edge_runtime.images import read_array, read_image

Image = pytest.importorskip("PIL.Image")
COLOUR = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Makes packages look as if they were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in packages else find(name))


@pytest.fixture(params=["PIL", "cv2"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip(request.param)
    without(monkeypatch, *({"PIL", "cv2"} - {request.param}))
    name: str = request.param
    return name


def test_colours_come_as_rgb_and_grey_with_one_channel(reader: str, tmp_path: Path) -> None:
    Image.fromarray(COLOUR).save(tmp_path / "a.png")
    Image.fromarray(COLOUR[..., 0]).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), COLOUR)
    np.testing.assert_array_equal(read_image(tmp_path / "b.png"), COLOUR[..., :1])


def test_alpha_is_dropped(reader: str, tmp_path: Path) -> None:
    rgba = np.concatenate([COLOUR, np.full((5, 7, 1), 9, np.uint8)], axis=2)
    Image.fromarray(rgba).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), COLOUR)


def test_an_image_is_turned_as_its_camera_says(reader: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the picture is at the right of the stored one
    Image.fromarray(COLOUR).save(tmp_path / "a.jpg", exif=exif, quality=100, subsampling=0)
    turned = read_image(tmp_path / "a.jpg")
    assert turned.shape == (7, 5, 3)
    assert np.abs(turned.astype(int) - np.rot90(COLOUR, -1)).mean() < 12


def test_a_palette_becomes_colours(tmp_path: Path) -> None:
    image = Image.fromarray(COLOUR).quantize(8)
    image.save(tmp_path / "a.gif")
    assert read_image(tmp_path / "a.gif").shape == (5, 7, 3)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n broken"])
def test_a_damaged_image_is_refused_by_name(reader: str, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"{path} is damaged or not an image"):
        read_image(path)


def test_a_truncated_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.fromarray(np.repeat(COLOUR, 40, axis=0)).save(path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(UsageError, match="damaged or not an image"):
        read_image(path)


def test_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match="expected 8 bits a channel"):
        read_image(tmp_path / "a.png")


def test_a_missing_image_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no image file at"):
        read_image(tmp_path / "none.png")


def test_without_a_reader_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    without(monkeypatch, "PIL", "cv2")
    with pytest.raises(
        MissingPackageError, match=r"pip install pillow; or give the decoded image as a \.npy"
    ) as caught:
        read_image(tmp_path / "a.png")
    assert caught.value.exit_code == 5


def test_an_array_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", COLOUR)
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy"), COLOUR)


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    objects: Any = np.array([{"a": 1}], dtype=object)
    np.save(path, objects, allow_pickle=True)
    with pytest.raises(UsageError, match=r"damaged or not a \.npy array"):
        read_array(path)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x93NUMPY\x01\x00"])
def test_a_damaged_array_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"damaged or not a \.npy array"):
        read_array(path)


def test_a_missing_array_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file at"):
        read_array(tmp_path / "none.npy")
