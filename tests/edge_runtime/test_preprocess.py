from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.contract import ImagePreprocess
from edge_runtime.errors import ContractError
from edge_runtime.preprocess import (
    LETTERBOX_FILL,
    Placement,
    arrange,
    convert_colors,
    fit,
    normalize,
    placement,
    preprocess,
    preprocess_batch,
    resize,
)

IMAGENET = ImagePreprocess(6, 5, "RGB", "stretch", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
RAW = ImagePreprocess(6, 5, "RGB", "stretch", (0, 0, 0), (1, 1, 1), divide_by=1)


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def bilinear_by_the_definition(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """One pixel at a time, in float64, unrounded."""
    old_height, old_width, _ = image.shape
    result = np.empty((height, width, image.shape[2]))
    for row in range(height):
        for column in range(width):
            y = min(max((row + 0.5) * old_height / height - 0.5, 0), old_height - 1)
            x = min(max((column + 0.5) * old_width / width - 0.5, 0), old_width - 1)
            y0, x0 = int(y), int(x)
            y1, x1 = min(y0 + 1, old_height - 1), min(x0 + 1, old_width - 1)
            top = image[y0, x0] * (1 - (x - x0)) + image[y0, x1] * (x - x0)
            bottom = image[y1, x0] * (1 - (x - x0)) + image[y1, x1] * (x - x0)
            result[row, column] = top * (1 - (y - y0)) + bottom * (y - y0)
    return result


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.sampled_from([1, 3]))
def test_resizing_is_the_definition_rounded(old_h: int, old_w: int, new_h: int, new_w: int, channels: int) -> None:
    image = picture(old_h, old_w, channels, seed=old_h * 13 + old_w)
    got = resize(image[None], new_h, new_w)[0]
    exact = bilinear_by_the_definition(image, new_h, new_w)
    assert got.dtype == np.uint8
    assert np.abs(got - exact).max() <= 0.5 + 1e-4


@pytest.mark.slow  # imports torch, to confirm from outside what the test above says
def test_resizing_is_the_rule_of_torch() -> None:
    torch = pytest.importorskip("torch")
    image = picture(37, 53)
    planes = torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float64))
    for size in ((20, 31), (64, 64), (37, 10)):
        exact = torch.nn.functional.interpolate(planes, size, mode="bilinear", align_corners=False, antialias=False)
        exact = exact[0].numpy().transpose(1, 2, 0)
        assert np.abs(resize(image[None], *size)[0] - exact).max() <= 0.5 + 1e-3


def test_resizing_to_the_same_size_changes_nothing() -> None:
    image = picture(7, 9)[None]
    np.testing.assert_array_equal(resize(image, 7, 9), image)


def test_one_level_stays_one_level() -> None:
    for level in (0, 1, 127, 254, 255):
        image = np.full((1, 9, 7, 3), level, dtype=np.uint8)
        assert np.unique(resize(image, 5, 13)).tolist() == [level]


def test_values_are_those_of_the_formula() -> None:
    image = picture(6, 5)
    exact = (image / 255 - np.array(IMAGENET.mean)) / np.array(IMAGENET.std)
    np.testing.assert_array_equal(preprocess(image, IMAGENET), exact.astype(np.float32))


@pytest.mark.parametrize("order", ["RGB", "BGR", "GRAY"])
def test_normalizing_gives_each_channel_its_own_mean_and_std(order: Any) -> None:
    channels = 1 if order == "GRAY" else 3
    spec = ImagePreprocess(2, 2, order, "none", tuple(0.1 * (c + 1) for c in range(channels)), (0.5,) * channels, 128.0)
    image = picture(2, 2, channels)
    exact = (image / 128 - np.array(spec.mean)) / np.array(spec.std)
    np.testing.assert_array_equal(normalize(image, spec), exact.astype(np.float32))


def test_blue_comes_first_where_the_contract_says_bgr() -> None:
    image = picture(6, 5)
    np.testing.assert_array_equal(preprocess(image, replace(RAW, color_order="BGR")), preprocess(image, RAW)[..., ::-1])


def test_grey_from_colour_is_what_pillow_gives() -> None:
    image_module = pytest.importorskip("PIL.Image")
    image = picture(40, 50)
    expected = np.array(image_module.fromarray(image).convert("L"))
    np.testing.assert_array_equal(convert_colors(image, "GRAY")[..., 0], expected)


def test_colour_from_grey_repeats_the_channel() -> None:
    grey = picture(6, 5, 1)
    colour = convert_colors(grey, "RGB")
    assert colour.shape == (6, 5, 3)
    assert all(np.array_equal(colour[..., channel], grey[..., 0]) for channel in range(3))


@pytest.mark.parametrize("rule", ["none", "stretch", "center-crop", "letterbox"])
@pytest.mark.parametrize("order", ["RGB", "BGR", "GRAY"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_batch_is_its_images_one_by_one(rule: Any, order: Any, channels: int) -> None:
    count = 1 if order == "GRAY" else 3
    spec = ImagePreprocess(6, 5, order, rule, (0.5,) * count, tuple(0.2 + 0.1 * c for c in range(count)))
    size = (6, 5) if rule == "none" else (11, 8)
    images = np.stack([picture(*size, channels, seed=seed) for seed in range(4)])
    batch = preprocess_batch(images, spec)
    assert batch.shape == (4, 6, 5, count)
    assert batch.dtype == np.float32
    for image, values in zip(images, batch, strict=True):
        np.testing.assert_array_equal(preprocess(image, spec), values)


def test_center_crop_covers_the_input_and_cuts_evenly() -> None:
    spec = replace(RAW, height=4, width=4, resize="center-crop")
    assert placement(8, 16, spec) == Placement(4, 8, 0, -2)
    assert placement(16, 8, spec) == Placement(8, 4, -2, 0)
    image = picture(4, 8)
    np.testing.assert_array_equal(fit(image[None], spec)[0], image[:, 2:6])


def test_letterbox_fits_inside_and_fills_the_rest() -> None:
    spec = replace(RAW, height=8, width=8, resize="letterbox")
    assert placement(8, 16, spec) == Placement(4, 8, 2, 0)
    boxed = fit(np.full((1, 8, 16, 3), 200, dtype=np.uint8), spec)[0]
    assert (boxed[2:6] == 200).all()
    assert (boxed[:2] == LETTERBOX_FILL).all()
    assert (boxed[6:] == LETTERBOX_FILL).all()


@given(
    st.integers(1, 2000),
    st.integers(1, 2000),
    st.integers(1, 500),
    st.integers(1, 500),
    st.sampled_from(["center-crop", "letterbox", "stretch"]),
)
def test_a_placement_covers_or_fits_whatever_the_sizes(height: int, width: int, h: int, w: int, rule: Any) -> None:
    place = placement(height, width, replace(RAW, height=h, width=w, resize=rule))
    if rule == "letterbox":
        assert 1 <= place.height <= h
        assert 1 <= place.width <= w
        assert place.top >= 0
        assert place.left >= 0
    else:
        assert place.height >= h
        assert place.width >= w
        assert place.top + place.height >= h
        assert place.left + place.width >= w
    assert place.height == h or place.width == w


def test_without_a_rule_another_size_is_refused() -> None:
    with pytest.raises(ContractError, match="takes images of 6 x 5 without resizing, got 5 x 6"):
        preprocess(picture(5, 6), replace(RAW, resize="none"))


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((4, 4, 3), np.float32), "uint8 array with levels 0 to 255, got float32"),
        ([[1]], "got list"),
        (np.zeros((4, 4), np.uint8), r"\(H, W, C\) with 1 or 3 channels last, got shape \(4, 4\)"),
        (np.zeros((3, 4, 4), np.uint8), "1 or 3 channels last"),
        (np.zeros((4, 4, 4), np.uint8), "1 or 3 channels last"),
        (np.zeros((0, 4, 3), np.uint8), "1 or 3 channels last"),
    ],
)
def test_what_is_no_image_is_refused(image: Any, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        preprocess(image, RAW)


def test_the_image_is_left_as_it_was() -> None:
    image = picture(9, 9)
    kept = image.copy()
    preprocess(image, IMAGENET)
    np.testing.assert_array_equal(image, kept)


def test_a_flipped_view_is_read_right() -> None:
    image = picture(9, 9)
    np.testing.assert_array_equal(preprocess(image[:, ::-1], IMAGENET), preprocess(image[:, ::-1].copy(), IMAGENET))


def test_layouts_hold_the_same_values() -> None:
    values = preprocess_batch(picture(6, 5)[None], IMAGENET)
    moved = arrange(values, "NCHW")
    assert moved.shape == (1, 3, 6, 5)
    assert moved.flags.c_contiguous
    np.testing.assert_array_equal(moved.transpose(0, 2, 3, 1), values)
    np.testing.assert_array_equal(arrange(values, "NHWC"), values)
