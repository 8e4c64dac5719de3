"""`callable`: any Python function that gives images, e.g. a torchvision data set or a generator.

The function returns either a sequence (`len`, indexing), which is read again whenever an image is needed, or an
iterable, which is read once and kept. A sample is `(image, label)` or `(image, label, split)`: the image a uint8
array (H, W), (H, W, 1), (H, W, 3) or a Pillow image; the label a name, or an index into the attribute `classes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from compress.errors import DataError
from compress.tasks.image_classification.array_images import ArrayImages, pixel_digest
from compress.tasks.image_classification.collection import ImageCollection, ImageRecord, Loss
from compress.tasks.image_classification.settings import ImageDataSettings
from compress.tasks.splits import SPLIT_ALIASES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CallableSettings(ImageDataSettings):
    """The digest of every sample is computed at each start, since nothing else says whether the data has changed."""

    source: Literal["callable"] = "callable"
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] = Field(
        description="package.module:function, found beside the recipe or installed"
    )
    arguments: dict[str, Any] = Field({}, description="keyword arguments of the function")

    def open(self, cache: Path) -> ImageCollection:
        """Calls the function. Raises StageError when it cannot be found, and DataError when it fails or
        returns what does not fit."""
        samples = self._call()
        classes = getattr(samples, "classes", None)
        classes = tuple(str(name) for name in classes) if classes is not None else None
        lazy = hasattr(samples, "__getitem__") and hasattr(samples, "__len__")
        records, images = [], []
        for index, sample in enumerate(_iterate(samples, lazy, self.function)):
            record, pixels = _record(index, sample, classes, self.function)
            records.append(record)
            if not lazy:
                images.append(pixels)
        if lazy:
            return _SequenceImages(records, samples, classes)
        return ArrayImages(records, images, classes)

    def _call(self) -> Any:
        from compress.models.builders import import_function

        function = import_function(self.function)
        try:
            samples = function(**self.arguments)
        except Exception as error:
            raise DataError(f"data source {self.function} failed: {type(error).__name__}: {error}") from error
        if not hasattr(samples, "__iter__") and not hasattr(samples, "__getitem__"):
            raise DataError(f"data source {self.function} returned {type(samples).__name__}; expected samples")
        return samples


def _iterate(samples: Any, lazy: bool, function: str) -> Iterator[Any]:
    iterator = (samples[index] for index in range(len(samples))) if lazy else iter(samples)
    while True:
        try:
            sample = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise DataError(f"data source {function} failed: {type(error).__name__}: {error}") from error
        yield sample


def _record(
    index: int, sample: Any, classes: tuple[str, ...] | None, function: str
) -> tuple[ImageRecord, NDArray[np.uint8]]:
    import numpy as np

    from compress.tasks.image_classification.decode import to_pixels

    if not isinstance(sample, Sequence) or len(sample) not in (2, 3):
        raise DataError(f"sample {index} of {function}: expected (image, label) or (image, label, split)")
    image, label, *given = sample
    class_name = _class_name(label, classes, index, function)
    if given and given[0] not in SPLIT_ALIASES:
        raise DataError(
            f"sample {index} of {function}: unknown split {given[0]!r}; expected {', '.join(SPLIT_ALIASES)}"
        )
    split = SPLIT_ALIASES[given[0]] if given else None
    try:
        pixels = to_pixels(image)
    except Exception as error:  # Pillow decodes lazily and raises what its plugins raise
        return ImageRecord(f"{index:08d}", class_name, split, "", 0, 0, str(error)), np.zeros((1, 1, 1), np.uint8)
    height, width, _ = pixels.shape
    return ImageRecord(f"{index:08d}", class_name, split, pixel_digest(pixels), height, width), pixels


def _class_name(label: Any, classes: tuple[str, ...] | None, index: int, function: str) -> str:
    if isinstance(label, str):
        return label
    try:
        number = int(label)
    except (TypeError, ValueError):
        raise DataError(f"sample {index} of {function}: expected a label as name or index, got {label!r}") from None
    if classes is None:
        return str(number)
    if not 0 <= number < len(classes):
        raise DataError(f"sample {index} of {function}: label {number} is not an index of its {len(classes)} classes")
    return classes[number]


@dataclass(frozen=True)
class _SequenceImages:
    records: Sequence[ImageRecord]
    samples: Any
    classes: tuple[str, ...] | None
    lost: Mapping[str, Loss] = field(default_factory=dict)

    def read(self, index: int) -> NDArray[np.uint8]:
        from compress.tasks.image_classification.decode import to_pixels

        pixels = to_pixels(self.samples[index][0])
        if pixel_digest(pixels) != self.records[index].digest:
            raise DataError(f"sample {index} differs from what it was at the start; the sequence must be constant")
        return pixels
