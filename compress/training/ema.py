"""An exponential moving average of weights and buffers, which is smoother than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


class MovingAverage:
    """Averages floating-point parameters and buffers; counters among the buffers stay the model's own.

    The decay starts low, (1 + n) / (10 + n) after n updates, so that the random first weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self._live = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
        self._average = [tensor.detach().clone() for tensor in self._live]

    def update(self) -> None:
        import torch

        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        with torch.no_grad():
            torch._foreach_lerp_(self._average, [tensor.detach() for tensor in self._live], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the model holds the average. Storage changes hands; nothing is copied."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for index, live in enumerate(self._live):
            live.data, self._average[index] = self._average[index], live.data

    def state(self) -> list[Tensor]:
        return list(self._average)

    def restore(self, average: Sequence[Tensor], updates: int) -> None:
        for mine, stored in zip(self._average, average, strict=True):
            mine.copy_(stored)
        self.updates = updates
