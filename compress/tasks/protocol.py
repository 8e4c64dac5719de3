"""What a task is: it owns data, loss, metrics, pre- and post-processing. Stages talk to tasks through this alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from edge_runtime.contract import Contract

if TYPE_CHECKING:  # `validate` and `plan` read settings without importing torch
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

SplitName = Literal["train", "validation", "calibration", "test"]


@dataclass(frozen=True)
class Batch:
    """`inputs` (B, C, H, W) float32 and `targets` (B,) int64 for classification.

    `sample_ids` (B,) int64 are stable positions in the data manifest; `augmentation_ids` (B,) int64 name what was done
    to each sample (0: nothing), so that teacher outputs can be kept and reused.
    """

    inputs: Tensor
    targets: Any
    sample_ids: NDArray[np.int64]
    augmentation_ids: NDArray[np.int64]


@dataclass(frozen=True)
class SplitInfo:
    """Size and composition of a split, for reports and checks."""

    name: SplitName
    count: int
    per_class: dict[str, int]
    skipped: tuple[str, ...]
    """Samples that could not be read, by name."""


class DataSet(Protocol):
    """Prepared data with disjoint splits fixed by the seed. Every iteration order is a function of its arguments."""

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest (sample names, content digests, labels, split of each)."""
        ...

    @property
    def labels(self) -> tuple[str, ...]: ...
    def info(self, split: SplitName) -> SplitInfo: ...

    def training_batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Augmented, shuffled batches of the train split; `start` batches are skipped without being read."""
        ...

    def evaluation_batches(self, split: SplitName, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """The split in manifest order, with the preprocessing of inference and no augmentation."""
        ...

    def restricted(self, splits: Sequence[SplitName]) -> DataSet:
        """A view that raises when another split is read: only `benchmark` gets `test`."""
        ...


class Task(Protocol):
    """One file set per task under compress/tasks/; third parties register theirs by entry point."""

    name: str
    metric: str
    """The metric that model selection and early stopping use, higher is better."""

    DataSettings: type[Any]

    def prepare(self, settings: Any, seed: int, cache: Path) -> DataSet:
        """Raises DataError when a split is empty or a class is absent from calibration."""
        ...

    def contract(self, data: DataSet) -> Contract:
        """The float32 contract of a model for this data: NCHW, batch 1, as torch takes it."""
        ...

    def model_arguments(self, data: DataSet) -> dict[str, Any]:
        """What builders get from the data: for classification `num_classes`, `in_channels`, `image_size`."""
        ...

    def loss(self, outputs: Any, targets: Any, label_smoothing: float) -> Tensor: ...

    def evaluate(
        self, model: nn.Module, data: DataSet, split: SplitName, batch_size: int, device: str
    ) -> dict[str, float]:
        """Metrics of a torch model, in inference mode. Used on validation only."""
        ...

    def distillation_loss(self, student: Any, teacher: Any, temperature: float) -> Tensor:
        """Soft-target loss (Hinton et al. 2015), already multiplied by temperature squared."""
        ...
