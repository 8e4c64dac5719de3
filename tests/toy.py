"""A task of three classes on 3 x 8 x 8 images, and stage contexts for it: training takes a fraction of a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from compress.models.architecture import Architecture, BuilderReference
from compress.models.network import Network, save_variant
from compress.models.variant import TorchVariant, Variant
from compress.stages.protocol import StageContext
from compress.tasks.protocol import Batch, DataSet, SplitInfo, SplitName
from compress.tasks.restricted import RestrictedDataSet
from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract
from export.targets import TARGETS

CLASSES = ("left", "middle", "right")
SIZE = 8


class ToyData:
    """Noise, brighter in one third. With `augmented`, each image is mirrored or not, by seed, epoch and sample."""

    labels = CLASSES

    def __init__(self, count: int = 96, augmented: bool = False, digest: str = "toy") -> None:
        self.digest, self.augmented = digest, augmented
        self.splits: dict[SplitName, Any] = {
            "train": np.arange(count),
            "validation": np.arange(count, count + 60),
            "calibration": np.arange(count + 60, count + 90),
        }
        self.targets = torch.from_numpy(np.arange(count + 90) % 3)
        self.inputs = torch.from_numpy(np.random.default_rng(0).normal(0, 0.5, (count + 90, 3, SIZE, SIZE))).float()
        for index, target in enumerate(self.targets.tolist()):
            self.inputs[index, :, :, 3 * target : 3 * target + 2] += 1

    def info(self, split: SplitName) -> SplitInfo:
        counts = Counter(self.targets[self.splits[split]].tolist())
        return SplitInfo(split, len(self.splits[split]), {CLASSES[k]: v for k, v in counts.items()}, ())

    def training_batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        order = np.random.default_rng([seed, epoch]).permutation(self.splits["train"])
        for index in range(start, max(1, len(order) // batch_size)):
            ids = order[index * batch_size : (index + 1) * batch_size]
            mirrored = (ids + epoch + seed) % 2 if self.augmented else np.zeros_like(ids)
            yield self._batch(ids, mirrored)

    def evaluation_batches(self, split: SplitName, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        ids = self.splits[split][:limit]
        for start in range(0, len(ids), batch_size):
            yield self._batch(ids[start : start + batch_size], np.zeros(len(ids[start : start + batch_size]), np.int64))

    def restricted(self, splits: Sequence[SplitName]) -> DataSet:
        return RestrictedDataSet(self, frozenset(splits))

    def _batch(self, ids: Any, mirrored: Any) -> Batch:
        inputs = self.inputs[ids]
        flip = torch.from_numpy(mirrored == 1)[:, None, None, None]
        return Batch(torch.where(flip, inputs.flip(3), inputs), self.targets[ids], ids, mirrored)


class ToyTask:
    name = "toy"
    metric = "accuracy"
    DataSettings: type[Any] = object

    def prepare(self, settings: Any, seed: int, cache: Path) -> DataSet:
        return ToyData()

    def contract(self, data: DataSet) -> Contract:
        spec = ImagePreprocess(SIZE, SIZE, "RGB", "none", (0.0,) * 3, (1.0,) * 3)
        return Contract(
            task=self.name,
            inputs=(InputContract("image", (1, 3, SIZE, SIZE), "float32", "NCHW", preprocess=spec),),
            outputs=(OutputContract("logits", (1, len(data.labels)), "float32", "logits"),),
            labels=data.labels,
        )

    def model_arguments(self, data: DataSet) -> dict[str, Any]:
        return {"num_classes": len(data.labels), "in_channels": 3, "image_size": SIZE}

    def loss(self, outputs: Any, targets: Any, label_smoothing: float) -> Tensor:
        return functional.cross_entropy(outputs, targets, label_smoothing=label_smoothing)

    def evaluate(
        self, model: nn.Module, data: DataSet, split: SplitName, batch_size: int, device: str
    ) -> dict[str, float]:
        model.eval()
        with torch.inference_mode():
            right = [
                (model(batch.inputs).argmax(1) == batch.targets).float()
                for batch in data.evaluation_batches(split, batch_size)
            ]
        return {"accuracy": float(torch.cat(right).mean())}

    def distillation_loss(self, student: Any, teacher: Any, temperature: float) -> Tensor:
        soft = functional.log_softmax(student / temperature, 1)
        goal = functional.log_softmax(teacher / temperature, 1)
        return functional.kl_div(soft, goal, reduction="batchmean", log_target=True) * temperature**2


def context(
    folder: Path, data: ToyData | None = None, seed: int = 7, said: list[str] | None = None, **variants: Variant
) -> StageContext:
    """A context whose `work` and `shared` outlive it and whose `output` is new each time."""

    def progress(message: str, *, fraction: float | None = None, **fields: Any) -> None:
        if said is not None:
            said.append(message)

    output = folder / f"output-{len(list(folder.glob('output-*')))}"
    for path in (folder / "work", folder / "shared", output):
        path.mkdir(parents=True, exist_ok=True)
    return StageContext(
        stage_id="stage",
        names=("result",),
        seed=seed,
        task=ToyTask(),
        data=data or ToyData(),
        target=TARGETS["x86-avx2"],
        device="cpu",
        work=folder / "work",
        output=output,
        shared=folder / "shared",
        progress=progress,
        variants=variants,
    )


def network(function: str, seed: int = 0, **arguments: Any) -> Network:
    """One of `tests.nets` for the toy task, as the source `module:function` builds it."""
    from compress.models.builders import build

    reference = BuilderReference(
        "module:function",
        {"function": f"tests.nets:{function}", "arguments": arguments, "num_classes": len(CLASSES), "in_channels": 3},
    )
    torch.manual_seed(seed)
    return Network(build(reference), Architecture(reference))


def trained(function: str, epochs: int = 8, **arguments: Any) -> Network:
    """The same after a few plain steps, so that scores and statistics mean something."""
    made = network(function, **arguments)
    data, task = ToyData(), ToyTask()
    made.module.train()
    optimizer = torch.optim.Adam(made.module.parameters(), 3e-3)
    for epoch in range(epochs):
        for batch in data.training_batches(32, 0, epoch):
            optimizer.zero_grad()
            task.loss(made.module(batch.inputs), batch.targets, 0.0).backward()
            optimizer.step()
    made.module.eval()
    return made


def variant(made: Network, folder: Path, name: str = "parent") -> TorchVariant:
    task, data = ToyTask(), ToyData()
    score = task.evaluate(made.module, data, "validation", 64, "cpu")
    return save_variant(
        made, name=name, directory=folder / name, contract=task.contract(data), lineage=(), validation=score
    )


def files(result: TorchVariant) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(result.directory.iterdir())}
