"""From a decoded image to the numbers a network was trained on. One code path, numpy alone, for training, validation,
calibration, test and the device.

In order: colours to the contract's order, the resize rule (bilinear, half-pixel centres, no antialiasing, rounded to
whole levels), then `(pixel / divide_by - mean) / std`. As pixels are whole levels, the last step is a table of 256
values a channel, and every implementation of it can be bit-exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_runtime.contract import ColorOrder, ImagePreprocess, Layout
from edge_runtime.errors import ContractError

LETTERBOX_FILL = 114
"""Level of the borders that `letterbox` adds, before normalization."""

Pixels = NDArray[np.uint8]
Values = NDArray[np.float32]


@dataclass(frozen=True)
class Placement:
    """Where an image lands: resized to `height` x `width`, its top left corner at (`top`, `left`) of the input.

    Negative `top` and `left` crop. In pixels of the input; `decode` uses it to bring boxes back to the image.
    """

    height: int
    width: int
    top: int
    left: int


def preprocess(image: Pixels, spec: ImagePreprocess) -> Values:
    """One image, uint8 (H, W, 3) in RGB or (H, W, 1) in grey, as float32 (height, width, channels).

    Raises:
        ContractError: the image is not uint8 (H, W, 1 or 3), is empty, or `resize: none` meets another size.
    """
    _check(image, 3, "(H, W, C)")
    result: Values = preprocess_batch(image[None], spec)[0]
    return result


def preprocess_batch(images: Pixels, spec: ImagePreprocess) -> Values:
    """Images of equal size, uint8 (N, H, W, 1 or 3), as float32 (N, height, width, channels). Raises as above."""
    _check(images, 4, "(N, H, W, C)")
    return normalize(fit(convert_colors(images, spec.color_order), spec), spec)


def convert_colors(images: Pixels, order: ColorOrder) -> Pixels:
    """RGB or grey (..., H, W, 3 or 1) to `order`. Grey from RGB is ITU-R BT.601 luma in the integers Pillow uses."""
    if order == "GRAY":
        if images.shape[-1] == 1:
            return images
        weighted = np.dot(images.astype(np.uint32), np.array([19595, 38470, 7471], dtype=np.uint32))
        return ((weighted + 0x8000) >> 16).astype(np.uint8)[..., None]
    if images.shape[-1] == 1:
        return np.repeat(images, 3, axis=-1)
    return images if order == "RGB" else images[..., ::-1]


def placement(height: int, width: int, spec: ImagePreprocess) -> Placement:
    """How the resize rule places an image of `height` x `width`.

    `stretch` changes the aspect; `center-crop` scales until the image covers the input and cuts what hangs over;
    `letterbox` scales until it fits inside and centres it. Raises ContractError for `none` with another size.
    """
    if spec.resize == "none":
        if (height, width) != (spec.height, spec.width):
            raise ContractError(
                f"the contract takes images of {spec.height} x {spec.width} without resizing, got {height} x {width}"
            )
        return Placement(height, width, 0, 0)
    if spec.resize == "stretch":
        return Placement(spec.height, spec.width, 0, 0)
    pick = max if spec.resize == "center-crop" else min
    scale = pick(spec.height / height, spec.width / width)
    new_height, new_width = max(1, round(height * scale)), max(1, round(width * scale))
    return Placement(new_height, new_width, (spec.height - new_height) // 2, (spec.width - new_width) // 2)


def fit(images: Pixels, spec: ImagePreprocess) -> Pixels:
    """Applies the resize rule to (N, H, W, C): uint8 (N, spec.height, spec.width, C)."""
    count, height, width, channels = images.shape
    place = placement(height, width, spec)
    resized = resize(images, place.height, place.width)
    if (place.height, place.width) == (spec.height, spec.width):
        return resized
    if spec.resize == "center-crop":
        return resized[:, -place.top : spec.height - place.top, -place.left : spec.width - place.left]
    boxed = np.full((count, spec.height, spec.width, channels), LETTERBOX_FILL, dtype=np.uint8)
    boxed[:, place.top : place.top + place.height, place.left : place.left + place.width] = resized
    return boxed


def resize(images: Pixels, height: int, width: int) -> Pixels:
    """Bilinear with half-pixel centres, uint8 (N, H, W, C) to (N, height, width, C), borders repeated.

    The rule of `torch.nn.functional.interpolate(align_corners=False, antialias=False)`, rounded half up.
    """
    if images.shape[1:3] == (height, width):
        return images
    count, old_height, old_width, channels = images.shape
    top, bottom, down = _neighbours(old_height, height, 1)
    left, right, across = _neighbours(old_width, width, channels)
    rows = images.reshape(count, old_height, old_width * channels)  # long inner loops are what numpy is fast at
    upper, lower = rows.take(top, axis=1), rows.take(bottom, axis=1)
    blended = _between(upper.take(left, axis=2), upper.take(right, axis=2), across)
    blended = _between(blended, _between(lower.take(left, axis=2), lower.take(right, axis=2), across), down[:, None])
    blended += np.float32(0.5)
    return blended.astype(np.uint8).reshape(count, height, width, channels)


def normalize(images: Pixels, spec: ImagePreprocess) -> Values:
    """`(pixel / divide_by - mean[c]) / std[c]` of (..., C), computed in float64 and rounded once to float32."""
    levels = np.arange(256, dtype=np.float64)[:, None] / spec.divide_by
    table = ((levels - np.array(spec.mean)) / np.array(spec.std)).astype(np.float32)
    if (table == table[:, :1]).all():
        return _look_up(table[:, 0], images)
    values = np.empty(images.shape, dtype=np.float32)
    for channel in range(spec.channels):
        values[..., channel] = _look_up(table[:, channel], images[..., channel])
    return values


def arrange(values: Values, layout: Layout) -> Values:
    """Channels-last values (N, H, W, C) in the contract's layout, contiguous."""
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2) if layout == "NCHW" else values)


def _look_up(table: Values, levels: Pixels) -> Values:
    """`table[levels]`; every level is inside, so `clip` clips nothing and saves the check of each index."""
    return np.ascontiguousarray(table).take(levels, mode="clip")


def _neighbours(old: int, new: int, channels: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Values]:
    """For each of `new` pixels along an axis of `old`: the two it lies between, and the weight of the second.

    Indices and weights are of values, `channels` of them a pixel.
    """
    position = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)
    low = position.astype(np.intp)
    weight = (position - low).astype(np.float32).repeat(channels)
    first, second = (
        (pixel[:, None] * channels + np.arange(channels)).ravel() for pixel in (low, np.minimum(low + 1, old - 1))
    )
    return first, second, weight


def _between(first: NDArray[np.generic], second: NDArray[np.generic], weight: Values) -> Values:
    """`first + (second - first) * weight`, float32."""
    start = first.astype(np.float32)
    result = second.astype(np.float32)
    result -= start
    result *= weight
    result += start
    return result


def _check(images: NDArray[np.generic], dimensions: int, form: str) -> None:
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        got = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        raise ContractError(f"an image is a uint8 array with levels 0 to 255, got {got}")
    if images.ndim != dimensions or images.shape[-1] not in (1, 3) or images.size == 0:
        raise ContractError(f"an image is {form} with 1 or 3 channels last, got shape {images.shape}")
