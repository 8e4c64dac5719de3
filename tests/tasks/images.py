"""Tiny image data for the tests of the image task."""

import io
import tarfile

import numpy as np
from PIL import Image

CLASSES = ("cat", "dog", "owl")


def picture(seed, height=8, width=8, channels=3):
    rng = np.random.default_rng(seed)
    shape = (height, width) if channels == 1 else (height, width, channels)
    return rng.integers(0, 256, shape, dtype=np.uint8)


def encoded(pixels, kind="PNG", **options):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def members(count, split=None, start=0, kind="PNG", **shape):
    """`count` members `[split/]class/number.suffix`, the classes in turn."""
    prefix = f"{split}/" if split else ""
    return [
        (f"{prefix}{CLASSES[i % 3]}/{i:04d}.{kind.lower()}", encoded(picture(i, **shape), kind))
        for i in range(start, start + count)
    ]


def write_tar(path, files):
    with tarfile.open(path, "w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_folder(root, files):
    for name, data in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root
