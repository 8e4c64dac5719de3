"""Makes a variant a teacher: loads it, measures it, and finds what it said before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compress.distillation.teacher_outputs import TeacherOutputs
from compress.errors import StageError
from compress.models.saved import load_model
from compress.models.variant import TorchVariant, Variant
from compress.tasks.protocol import DataSet, Task
from compress.training.progress import Progress

_EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Teacher:
    """`score` is the task's metric on validation, measured now and on this machine."""

    name: str
    score: float
    outputs: TeacherOutputs


def prepare_teacher(
    variant: Variant, task: Task, data: DataSet, *, folder: Path, device: str, progress: Progress, keep: bool = True
) -> Teacher:
    """`folder` is where outputs are kept for other runs; with `keep=False` they are computed for every batch.

    Raises StageError when the variant is no torch model, or does not answer with the classes of the data.
    """
    if not isinstance(variant, TorchVariant):
        raise StageError(f"the teacher {variant.name!r} is an exported file; expected a torch model")
    expected = task.contract(data)
    if (found := variant.contract.labels) != expected.labels:
        raise StageError(
            f"the teacher {variant.name!r} knows {len(found)} classes ({', '.join(found[:3])}, ...), "
            f"the data has {len(expected.labels)} ({', '.join(expected.labels[:3])}, ...)"
        )
    module = load_model(variant.directory, verify=variant.digest).to(device)
    score = task.evaluate(module, data, "validation", _EVALUATION_BATCH, device)[task.metric]
    progress(f"teacher {variant.name}: {task.metric} {score:.4f} on validation")
    outputs = TeacherOutputs(
        module,
        expected.outputs[0].shape[-1],
        folder=folder,
        teacher_digest=variant.digest,
        data_digest=data.digest,
        device=device,
        keep=keep,
    )
    return Teacher(variant.name, score, outputs)
