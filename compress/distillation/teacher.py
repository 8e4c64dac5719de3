"""Makes a variant a teacher: loads it, checks that it fits the data, and measures it before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compress.errors import StageError
from compress.models.network import check_contract, parent_network
from compress.models.variant import TorchVariant, Variant
from compress.tasks.protocol import DataSet, Task
from compress.training.progress import Progress

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Teacher:
    """`module` is in evaluation mode on the device and takes no gradients; `validation` was measured now and here."""

    name: str
    digest: str
    module: nn.Module
    validation: dict[str, float]


def open_teacher(
    variant: Variant, task: Task, data: DataSet, batch_size: int, device: str, progress: Progress
) -> Teacher:
    """Loads the teacher, measures it on validation and says so.

    Raises StageError when the variant is no torch model, or does not answer with the classes of the data.
    """
    if not isinstance(variant, TorchVariant):
        raise StageError(f"the teacher '{variant.name}' is no torch model; name the variant it was made from")
    contract = task.contract(data)
    if (found := variant.contract.labels) != contract.labels:
        raise StageError(
            f"the teacher '{variant.name}' knows {len(found)} classes ({', '.join(found[:3])}, ...), "
            f"the data has {len(contract.labels)} ({', '.join(contract.labels[:3])}, ...)"
        )
    module = parent_network(variant).module
    check_contract(module, contract)
    module = module.to(device).eval().requires_grad_(False)
    validation = task.evaluate(module, data, "validation", batch_size, device)
    score = ", ".join(f"{name} {value:.4f}" for name, value in validation.items())
    progress(f"teacher {variant.name}: validation {score}", **validation)
    return Teacher(variant.name, variant.digest, module, validation)
