"""Samples of a split as a file that converters map into memory, checked on the way, with a card of what they are."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from compress.errors import StageError
from compress.tasks.protocol import DataSet
from edge_runtime.contract import Contract, InputContract

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 64


@dataclass(frozen=True)
class CalibrationCard:
    """What the INT8 ranges were measured on. Figures by channel are of preprocessed values, as the model sees them."""

    split: str
    count: int
    sample_ids: tuple[int, ...]
    per_class: dict[str, int]
    layout: str
    dtype: str
    channel_minimum: tuple[float, ...]
    channel_maximum: tuple[float, ...]
    channel_mean: tuple[float, ...]
    skipped: tuple[str, ...]


def in_layout(contract: Contract, layout: Literal["NHWC", "NCHW"]) -> Contract:
    """The same contract with its image inputs (4 axes) in the given layout. Raises StageError for another layout."""
    return replace(contract, inputs=tuple(_input_in_layout(entry, layout) for entry in contract.inputs))


def _input_in_layout(entry: InputContract, layout: Literal["NHWC", "NCHW"]) -> InputContract:
    if entry.layout == layout or entry.layout == "ND":
        return entry
    if len(entry.shape) != 4:
        raise StageError(f"input {entry.name}: expected 4 axes for {entry.layout}, got the shape {entry.shape}")
    order = (0, 2, 3, 1) if layout == "NHWC" else (0, 3, 1, 2)
    return replace(entry, shape=tuple(entry.shape[axis] for axis in order), layout=layout)


def write_samples(
    data: DataSet,
    contract: Contract,
    split: Literal["validation", "calibration"],
    count: int,
    path: Path,
    *,
    pool: int | None = None,
) -> tuple[Path, CalibrationCard]:
    """Streams up to `count` samples, spread over the split, into a `.npy` of float32 (N, C, H, W).

    `pool` takes them from the first so many samples, so that a large split is not read whole.

    Raises StageError when a sample has another shape or dtype than the model's input, holds NaN, or lies outside what
    the contract's preprocessing can give (a sign that another preprocessing made it), or when a class that the split
    has is missing from at least as many samples as there are classes.
    """
    import numpy as np

    info = data.info(split)
    chosen = _spread(min(info.count, pool or info.count), count)
    shape = _nchw_shape(contract.inputs[0])
    statistics = _Statistics(contract, shape[0])
    with NpyWriter(path, shape, len(chosen)) as writer:
        position = 0
        for batch in data.evaluation_batches(split, _BATCH, limit=pool):
            inputs = batch.inputs.numpy()
            picked = chosen[(chosen >= position) & (chosen < position + len(inputs))] - position
            position += len(inputs)
            if len(picked):
                samples = inputs[picked]
                statistics.add(samples, np.asarray(batch.targets)[picked], np.asarray(batch.sample_ids)[picked])
                writer.append(samples)
    return path, statistics.card(split, info.per_class, info.skipped)


def _spread(available: int, wanted: int) -> NDArray[np.int64]:
    """Positions (at most `wanted`,) ascending: one drawn from each of as many equal parts of the split.

    Parts follow the order of a split that is sorted by class; drawing within them keeps step with no pattern in it.
    """
    import numpy as np

    count = min(wanted, available)
    edges = np.arange(count + 1) * available // max(count, 1)
    drawn: NDArray[np.int64] = np.random.default_rng(0).integers(edges[:-1], edges[1:])
    return drawn


class NpyWriter:
    """Appends samples to a `.npy` file of float32 without holding them: memory is one batch, whatever the count.

    The header is written last, because samples that cannot be read are skipped and make the file shorter. The file
    appears under its name only when it is whole.
    """

    def __init__(self, path: Path, sample_shape: tuple[int, ...], expected: int) -> None:
        self._path, self._shape = path, sample_shape
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}")
        self._written = 0
        self._stream = self._temporary.open("w+b")
        self._header(expected)
        self._start = self._stream.tell()

    def __enter__(self) -> NpyWriter:
        return self

    def append(self, samples: NDArray[np.float32]) -> None:
        self._stream.write(samples.astype("<f4", copy=False).tobytes())
        self._written += len(samples)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._stream.seek(0)
            self._header(self._written)
            if self._stream.tell() != self._start:
                raise StageError(f"{self._path}: the header of the samples changed its length")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        self._stream.close()
        if kind is None:
            os.replace(self._temporary, self._path)
        else:
            self._temporary.unlink(missing_ok=True)

    def _header(self, count: int) -> None:
        from numpy.lib.format import write_array_header_1_0

        write_array_header_1_0(self._stream, {"descr": "<f4", "fortran_order": False, "shape": (count, *self._shape)})


class _Statistics:
    """Checks samples as they pass, and keeps what the calibration card shows."""

    def __init__(self, contract: Contract, channels: int) -> None:
        import numpy as np

        self._contract, self._shape = contract, _nchw_shape(contract.inputs[0])
        self._labels: list[int] = []
        self._ids: list[int] = []
        self._low = np.full(channels, np.inf)
        self._high = np.full(channels, -np.inf)
        self._sum = np.zeros(channels)
        self._bounds = _possible_range(contract.inputs[0])

    def add(self, samples: NDArray[np.float32], targets: NDArray[Any], ids: NDArray[np.int64]) -> None:
        import numpy as np

        if samples.shape[1:] != self._shape or samples.dtype != np.float32:
            raise StageError(
                f"expected samples of float32 {self._shape} (channels first), got {samples.dtype} {samples.shape[1:]}"
            )
        if not np.isfinite(samples).all():
            raise StageError("a calibration sample holds NaN or infinity")
        axes = (0, *range(2, samples.ndim))
        self._low = np.minimum(self._low, samples.min(axis=axes))
        self._high = np.maximum(self._high, samples.max(axis=axes))
        self._sum += samples.mean(axis=axes, dtype=np.float64) * len(samples)
        if self._bounds is not None:
            low, high = self._bounds
            if (self._low < low).any() or (self._high > high).any():
                raise StageError(
                    f"samples lie outside what the contract's preprocessing gives: {self._low} to {self._high}, "
                    f"possible {low} to {high}"
                )
        self._labels.extend(int(target) for target in targets)
        self._ids.extend(int(identity) for identity in ids)

    def card(self, split: str, available: dict[str, int], skipped: tuple[str, ...]) -> CalibrationCard:
        labels = self._contract.labels
        per_class = {label: self._labels.count(index) for index, label in enumerate(labels)}
        absent = [label for label, count in per_class.items() if count == 0 and available.get(label, 0) > 0]
        if not self._ids:
            raise StageError(f"the {split} split gave no sample")
        if split == "calibration" and absent and len(self._ids) >= len(labels):
            raise StageError(
                f"of {len(self._ids)} calibration samples none is of {', '.join(absent)}: raise `calibration`"
            )
        return CalibrationCard(
            split=split,
            count=len(self._ids),
            sample_ids=tuple(self._ids),
            per_class=per_class,
            layout="NCHW",
            dtype="float32",
            channel_minimum=tuple(self._low.tolist()),
            channel_maximum=tuple(self._high.tolist()),
            channel_mean=tuple((self._sum / len(self._ids)).tolist()),
            skipped=skipped,
        )


def _possible_range(entry: InputContract) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Lowest and highest value by channel (C,) that the preprocessing can give, with room for rounding."""
    import numpy as np

    spec = entry.preprocess
    if spec is None:
        return None
    mean, std = np.asarray(spec.mean), np.asarray(spec.std)
    low, high = (0 / spec.divide_by - mean) / std, (255 / spec.divide_by - mean) / std
    return low - 1e-4 * np.abs(low) - 1e-6, high + 1e-4 * np.abs(high) + 1e-6


def _nchw_shape(entry: InputContract) -> tuple[int, ...]:
    """The shape of one sample, channels first, without the batch."""
    return _input_in_layout(entry, "NCHW").shape[1:]
