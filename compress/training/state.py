"""How far a training run is: everything that changes while it runs, and how epochs and improvements are counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class EpochRecord:
    """`loss` is the mean training loss of the epoch, `validation` the metrics after it, `seconds` its wall time."""

    epoch: int
    loss: float
    validation: dict[str, float]
    learning_rate: float
    seconds: float


@dataclass
class State:
    """`epoch` and `batch` name what comes next. `reference` is what patience measures improvement against."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    epoch_seconds: float = 0.0
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = -1
    reference: float = float("-inf")
    stale: int = 0
    stopped: bool = False
    finished: bool = False

    def close_epoch(self, validation: dict[str, float], metric: str, rate: float, settings: TrainingSettings) -> bool:
        """Counts the epoch that has ended; whether its weights are the best so far."""
        loss = self.loss_sum / max(self.batch, 1)
        self.history.append(EpochRecord(self.epoch, loss, validation, rate, self.epoch_seconds))
        score = validation[metric]
        best = self.best_epoch < 0 or score > self.history[self.best_epoch].validation[metric]
        if best:
            self.best_epoch = self.epoch
        stopping = settings.early_stopping
        if stopping is None or score > self.reference + stopping.min_delta:
            self.reference, self.stale = score, 0
        else:
            self.stale += 1
            self.stopped = self.stale >= stopping.patience
        self.epoch, self.batch, self.loss_sum, self.epoch_seconds = self.epoch + 1, 0, 0.0, 0.0
        return best

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> State:
        return cls(**{**stored, "history": [EpochRecord(**record) for record in stored["history"]]})


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
