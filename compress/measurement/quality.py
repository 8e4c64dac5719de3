"""What files answer on the test split, in the engines that ship, and what their torch models answer on the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compress.errors import StageError
from compress.tasks.protocol import DataSet
from edge_runtime.contract import InputContract
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.evaluate import evaluate
from edge_runtime.metrics import bootstrap_interval, per_class_accuracy
from edge_runtime.session import Session

if TYPE_CHECKING:
    from torch import nn

BATCH = 64


@dataclass(frozen=True)
class Predictions:
    """Classes, all over the same N samples in the same order; `files` by key, `torch` by variant name.

    -1 stands where a file gave NaN or infinite scores; it is never right.
    """

    targets: NDArray[np.int64]
    files: Mapping[str, NDArray[np.int64]]
    torch: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Quality:
    """A metric with its 95 % bootstrap interval, and by class label (labels without a sample are left out)."""

    value: float
    interval: tuple[float, float]
    per_class: dict[str, float]


def predict(
    sessions: Mapping[str, Session],
    modules: Mapping[str, nn.Module],
    data: DataSet,
    progress: Callable[[float], None],
    workers: int | None = None,
) -> Predictions:
    """Runs every file, and every torch model, over the whole test split, in one pass over the data.

    Each file answers one sample at a time through its session, as on a device. `workers` (default: two, where there
    are two cores) files run at once: it changes the time taken and no answer. Memory is one batch of samples.

    Raises StageError when the split is empty, or when a file refuses the samples, naming it.
    """
    total = data.info("test").count
    targets: list[NDArray[np.int64]] = []
    files: dict[str, list[NDArray[np.int64]]] = {key: [] for key in sessions}
    torch_answers: dict[str, list[NDArray[np.int64]]] = {name: [] for name in modules}
    with ThreadPoolExecutor(workers or min(2, os.cpu_count() or 1)) as pool:
        for batch in data.evaluation_batches("test", BATCH):
            inputs, labels = batch.inputs.numpy(), np.asarray(batch.targets, dtype=np.int64)
            answers = pool.map(partial(_answer, sessions, inputs, labels), sessions)
            for key, answer in zip(sessions, answers, strict=True):
                files[key].append(answer)
            for name, module in modules.items():
                torch_answers[name].append(_torch_answer(module, batch.inputs))
            targets.append(labels)
            progress(sum(map(len, targets)) / max(total, 1))
    if not targets:
        raise StageError("the test split gave no sample")
    return Predictions(
        np.concatenate(targets),
        {key: np.concatenate(parts) for key, parts in files.items()},
        {name: np.concatenate(parts) for name, parts in torch_answers.items()},
    )


def judge(predicted: NDArray[np.int64], targets: NDArray[np.int64], labels: tuple[str, ...], seed: int) -> Quality:
    """Accuracy of `predicted` (N,) with its interval, and by class."""
    correct = predicted == targets
    shares = per_class_accuracy(predicted, targets, len(labels))
    return Quality(
        value=float(correct.mean()),
        interval=bootstrap_interval(correct, seed),
        per_class={label: float(share) for label, share in zip(labels, shares, strict=True) if not np.isnan(share)},
    )


def in_layout(inputs: NDArray[Any], entry: InputContract) -> NDArray[Any]:
    """Samples (N, C, H, W), as the data gives them, in the layout that the file takes, contiguous in memory."""
    return np.ascontiguousarray(inputs.transpose(0, 2, 3, 1) if entry.layout == "NHWC" else inputs)


def _answer(
    sessions: Mapping[str, Session], inputs: NDArray[Any], targets: NDArray[np.int64], key: str
) -> NDArray[np.int64]:
    """(N,) the class of each sample, -1 where the file gave no finite scores."""
    session = sessions[key]
    arranged = in_layout(inputs, session.contract.inputs[0])
    samples = ((arranged[index : index + 1], targets[index]) for index in range(len(arranged)))
    try:
        return evaluate(session, samples).predicted
    except EdgeRuntimeError as error:
        raise StageError(f"{key}: {error}") from error


def _torch_answer(module: nn.Module, inputs: Any) -> NDArray[np.int64]:
    import torch

    with torch.inference_mode():
        answer: NDArray[np.int64] = module(inputs).argmax(dim=1).numpy().astype(np.int64)
    return answer
