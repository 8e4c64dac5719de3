"""Bytes of an image file to pixels, with Pillow. The orientation that a camera noted in the file is applied."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"})
_ORIENTATION = 0x0112
_SIDEWAYS = frozenset({5, 6, 7, 8})


def is_image_name(name: str) -> bool:
    """Whether the suffix is one of an image format; hidden files (`._x.jpg`) are none."""
    stem, dot, suffix = name.rpartition(".")
    return bool(dot) and f".{suffix.lower()}" in IMAGE_SUFFIXES and not stem.rpartition("/")[2].startswith(".")


def probe(data: bytes) -> tuple[int, int]:
    """Height and width after decoding all of it (JPEG at an eighth of its size, which reads every byte at a third of
    the cost). Raises ValueError with the reason when it cannot be decoded."""
    try:
        with _open(data) as image:
            width, height = image.size
            sideways = image.getexif().get(_ORIENTATION) in _SIDEWAYS
            image.draft(None, (max(1, width // 8), max(1, height // 8)))
            image.load()
    except Exception as error:  # Pillow raises what its format plugins raise: OSError, SyntaxError, struct.error, ...
        raise ValueError(_reason(error)) from None
    return (width, height) if sideways else (height, width)


def decode(data: bytes) -> NDArray[np.uint8]:
    """Pixels (H, W, 3) in RGB, or (H, W, 1) of a grey image. Raises ValueError with the reason when it cannot."""
    try:
        with _open(data) as image:
            return to_pixels(image)
    except Exception as error:
        raise ValueError(_reason(error)) from None


def to_pixels(image: Any) -> NDArray[np.uint8]:
    """A Pillow image, or a uint8 array (H, W), (H, W, 1) or (H, W, 3), to (H, W, 1) or (H, W, 3) of uint8.

    Raises ValueError for arrays of other shapes or dtypes.
    """
    import numpy as np

    if not isinstance(image, np.ndarray):
        from PIL import ImageOps

        image = ImageOps.exif_transpose(image)
        pixels = np.array(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
        return pixels[:, :, None] if pixels.ndim == 2 else pixels
    if image.dtype != np.uint8:
        raise ValueError(f"expected pixels as uint8, got {image.dtype}")
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3 or image.shape[2] not in (1, 3) or 0 in image.shape:
        raise ValueError(f"expected pixels of shape (H, W), (H, W, 1) or (H, W, 3), got {image.shape}")
    return image


def _open(data: bytes) -> Any:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF; what matters is whether the pixels decode
        return Image.open(io.BytesIO(data))


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return "not an image" if "cannot identify image file" in text else text.splitlines()[0]
