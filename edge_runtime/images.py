"""Image files and arrays from disk. Needs Pillow or OpenCV, whichever is installed; arrays need neither."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import MissingPackageError, UsageError

Pixels = NDArray[np.uint8]

_GREY_MODES = ("1", "L", "LA")
_EIGHT_BIT_MODES = (*_GREY_MODES, "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")


def read_image(path: str | Path) -> Pixels:
    """An image file as uint8 (H, W, 3) RGB, or (H, W, 1) when it is grey; turned as its EXIF says, alpha dropped.

    Raises UsageError when the file is missing or no readable 8-bit image, MissingPackageError without a reader.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"no image file at {path}")
    if importlib.util.find_spec("PIL"):
        return _read_with_pillow(path)
    if importlib.util.find_spec("cv2"):
        return _read_with_opencv(path)
    raise MissingPackageError(
        f"reading {path} needs Pillow or OpenCV: pip install pillow; or give the decoded image as a .npy file"
    )


def read_array(path: str | Path) -> NDArray[Any]:
    """A `.npy` file. Raises UsageError when it is missing, damaged, or holds Python objects (pickle is not read)."""
    try:
        return cast(NDArray[Any], np.load(path, allow_pickle=False))
    except FileNotFoundError as error:
        raise UsageError(f"no file at {path}") from error
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{path} is damaged or not a .npy array: {error}") from error


def _read_with_pillow(path: Path) -> Pixels:
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened)
            if image.mode not in _EIGHT_BIT_MODES:
                raise UsageError(f"{path} has pixels of mode {image.mode}, expected 8 bits a channel")
            if image.mode in _GREY_MODES:
                return np.array(image.convert("L"))[..., None]
            return np.array(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path} is damaged or not an image: {error}") from error


def _read_with_opencv(path: Path) -> Pixels:
    import cv2

    image = cv2.imread(str(path), cv2.IMREAD_ANYCOLOR)
    if image is None:
        raise UsageError(f"{path} is damaged or not an image")
    pixels: Pixels = np.asarray(image, dtype=np.uint8)
    return pixels[..., None] if pixels.ndim == 2 else np.ascontiguousarray(pixels[..., ::-1])
