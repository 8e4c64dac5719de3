"""The keys of `data:` that all image sources share. Importing this imports no framework."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.recipe.types import (
    Boolean,
    FiniteFloat,
    Fraction,
    Listed,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Text,
)
from compress.tasks.splits import Amount

if TYPE_CHECKING:
    from compress.tasks.image_classification.collection import ImageCollection

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Augmentation(BaseModel):
    """Random changes of training images, drawn from seed, epoch and sample alone. None by default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    flip: Boolean = Field(False, description="mirror half of the images left to right")
    crop: NonNegativeInt = Field(0, description="pad with this many black pixels and cut out at a random place")
    cycle: PositiveInt | None = Field(
        None, description="epochs after which the draws repeat, so that a teacher's outputs are computed once for each"
    )


class ImageDataSettings(BaseModel):
    """Base of every source's settings: strict, immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    image_size: PositiveInt | None = Field(
        None, description="height and width of the network's input; default: the size of the images, if they share one"
    )
    channels: Literal[1, 3] = Field(3, description="1 grey, 3 RGB; grey images are repeated")
    resize: Literal["stretch", "center-crop", "letterbox"] = Field("center-crop", description="resize rule")
    mean: Listed[FiniteFloat] = Field((), description="per channel, of pixels in 0..1; default for RGB: ImageNet's")
    std: Listed[PositiveFloat] = Field((), description="per channel, of pixels in 0..1; default for RGB: ImageNet's")
    labels: Listed[Text] = Field((), description="class names in the order of the network's outputs; default: sorted")
    validation: Amount = Field(0.1, description="cut from train when the source names no validation split")
    calibration: Amount = Field(256, description="cut from train when the source names no calibration split")
    test: Amount = Field(0.2, description="cut from train when the source names no test split")
    augmentation: Augmentation = Field(Augmentation(), description="random changes of training images")
    max_skipped: Fraction = Field(0.01, description="unreadable share of a split beyond which the data is refused")
    cache: Literal["auto", "memory", "none"] = Field(
        "auto",
        description="keep decoded, resized images in memory; auto: if they take at most a quarter of what is free",
    )

    @model_validator(mode="after")
    def _normalisation_fits_channels(self) -> Self:
        for key, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (0, 1, self.channels):
                raise ValueError(
                    f"{key} has {len(values)} values; expected 1 or one for each of {self.channels} channels"
                )
        if bool(self.mean) != bool(self.std):
            raise ValueError("mean and std belong together: give both or neither")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels holds a name twice")
        return self

    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation by channel, for pixels in 0..1."""
        if self.mean:
            return _spread(self.mean, self.channels), _spread(self.std, self.channels)
        return self.default_normalisation()

    def default_normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What a source overrides when it knows its images. Grey: to -1..1; RGB: what pretrained networks expect."""
        return (IMAGENET_MEAN, IMAGENET_STD) if self.channels == 3 else ((0.5,), (0.5,))


class ImageSourceSettings(Protocol):
    """What a data source has to be, a third party's too: a settings model with the name of the source and `open`."""

    source: Any

    def open(self, cache: Path) -> ImageCollection:
        """Lists the images without keeping them; `cache` is a folder for indices. Raises DataError."""
        ...


def _spread(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return tuple(values) * (channels if len(values) == 1 else 1)
