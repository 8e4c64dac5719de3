"""From a source's settings to a data set: what can be read, which class and which split each image has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compress.errors import DataError
from compress.recipe.nearest import suggestion
from compress.tasks.image_classification.collection import ImageCollection, ImageRecord
from compress.tasks.image_classification.dataset import ImageDataSet
from compress.tasks.image_classification.pixels import pixels_of
from compress.tasks.image_classification.settings import ImageDataSettings
from compress.tasks.manifest import Manifest, write_manifest
from compress.tasks.protocol import SplitName
from compress.tasks.splits import SPLITS, Sample, decide_splits, order_key
from edge_runtime.contract import ImagePreprocess

TASK_NAME = "image-classification"


def prepare(settings: Any, seed: int, cache: Path) -> ImageDataSet:
    """Opens the source, decides the splits, writes the manifest to `cache`.

    Raises DataError when a file is missing, a split is empty, a class is absent from train or calibration, more of a
    split than `max_skipped` cannot be read, or images differ in size and no `image_size` is set.
    """
    import numpy as np

    collection: ImageCollection = settings.open(cache)
    usable = [index for index, record in enumerate(collection.records) if not record.error]
    skipped = _skipped(collection, settings.max_skipped)
    records = [collection.records[index] for index in usable]
    labels = _labels(records, collection.classes, settings.labels)
    number = {label: index for index, label in enumerate(labels)}
    samples = [Sample(record.name, record.digest, number[record.class_name], record.split) for record in records]
    amounts: dict[SplitName, int | float] = {
        "validation": settings.validation,
        "calibration": settings.calibration,
        "test": settings.test,
    }
    splits = decide_splits(samples, labels, amounts, seed)
    spec = _spec(settings, records)
    order = sorted(range(len(samples)), key=lambda index: (order_key(samples[index], seed), samples[index].name))
    manifest = Manifest(
        task=TASK_NAME,
        seed=seed,
        labels=labels,
        prepared={"preprocess": vars(spec), "augmentation": settings.augmentation.model_dump(mode="json")},
        samples=tuple(samples[index] for index in order),
        splits=tuple(splits[index] for index in order),
        # Names alone: the wording of a reason changes with the version of the library that gives it.
        skipped={split: tuple(name for name, _ in found) for split, found in skipped.items()},
    )
    path, digest = write_manifest(manifest, cache / "manifests")
    codes = np.array([SPLITS.index(split) for split in manifest.splits])
    return ImageDataSet(
        digest=digest,
        manifest=path,
        labels=labels,
        spec=spec,
        augmentation=settings.augmentation,
        pixels=pixels_of(collection, spec, settings.cache),
        targets=np.array([sample.label for sample in manifest.samples], np.int64),
        positions=np.array([usable[index] for index in order], np.int64),
        members={split: np.flatnonzero(codes == code) for code, split in enumerate(SPLITS)},
        skipped={split: tuple(f"{name} ({why})" for name, why in found) for split, found in skipped.items()},
    )


_Skipped = dict[SplitName, list[tuple[str, str]]]
"""Names with reasons, by split."""


def _skipped(collection: ImageCollection, limit: float) -> _Skipped:
    """What cannot be used. Raises DataError when it is more of one split than `limit`."""
    skipped: _Skipped = {}
    lost: Counter[SplitName] = Counter()
    total: Counter[SplitName] = Counter()
    for record in collection.records:
        split: SplitName = record.split or "train"
        total[split] += 1
        if record.error:
            lost[split] += 1
            skipped.setdefault(split, []).append((record.name, record.error))
    for name, loss in collection.lost.items():
        split = loss.split or "train"
        total[split] += loss.count
        lost[split] += loss.count
        skipped.setdefault(split, []).append((name, f"{loss.reason}; at least {loss.count} more lost"))
    if not total:
        raise DataError("the data source gives no images")
    for split, count in lost.items():
        if count > limit * total[split]:
            raise DataError(
                f"{count} of {total[split]} images of the {split} split cannot be read, more than "
                f"max_skipped = {limit:.2%}: {_shown(skipped[split])}"
            )
    if (share := sum(loss.share for loss in collection.lost.values())) > limit:
        damaged = [(name, loss.reason) for name, loss in collection.lost.items()]
        raise DataError(
            f"{share:.2%} of the shards are damaged, more than max_skipped = {limit:.2%}: {_shown(damaged)}"
        )
    return skipped


def _shown(named: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name} ({why})" for name, why in named[:3]) + ("; ..." if len(named) > 3 else "")


def _labels(
    records: Sequence[ImageRecord], classes: tuple[str, ...] | None, chosen: tuple[str, ...]
) -> tuple[str, ...]:
    present = {record.class_name for record in records}
    labels = chosen or classes or tuple(sorted(present))
    for name in sorted(present - set(labels)):
        raise DataError(
            f"the data has images of a class '{name}' that `labels` does not name{suggestion(name, labels)}"
        )
    return labels


def _spec(settings: ImageDataSettings, records: Sequence[ImageRecord]) -> ImagePreprocess:
    height = width = settings.image_size
    if height is None:
        sizes = Counter((record.height, record.width) for record in records).most_common(2)
        if len(sizes) > 1:
            (first, _), (second, _) = sizes
            raise DataError(
                f"images differ in size ({first[0]} x {first[1]}, {second[0]} x {second[1]}, ...): set `image_size`"
            )
        height, width = sizes[0][0]
    assert width is not None
    mean, std = settings.normalisation()
    color = "RGB" if settings.channels == 3 else "GRAY"
    return ImagePreprocess(height, width, color, settings.resize, tuple(mean), tuple(std))  # type: ignore[arg-type]
