"""A small task with small networks, so that a training run takes a fraction of a second."""

from collections import Counter
from contextlib import nullcontext

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from compress.tasks.protocol import Batch, SplitInfo
from compress.tasks.restricted import RestrictedDataSet
from compress.training.loop import train
from compress.training.settings import TrainingSettings


class Clusters:
    """Noisy images of 3 classes, 1 x 6 x 6: the class lights up one corner."""

    digest = "clusters"
    labels = ("a", "b", "c")

    def __init__(self, count=96, dtype=torch.float32, noise=0.4):
        generator = np.random.default_rng(0)
        self.targets = torch.from_numpy(np.arange(count + 60) % 3)
        images = generator.normal(0, noise, (count + 60, 1, 6, 6))
        for index, target in enumerate(self.targets.tolist()):
            row, column = divmod(target, 2)
            images[index, 0, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] += 1
        self.inputs = torch.from_numpy(images).to(dtype)
        self.count = count
        self.reads = []

    def info(self, split):
        ids = self._ids(split)
        return SplitInfo(split, len(ids), dict(Counter(self.targets[ids].tolist())), ())

    def training_batches(self, batch_size, seed, epoch, start=0):
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        for index in range(start, max(1, self.count // batch_size)):
            self.reads.append((epoch, index))
            yield self._batch(order[index * batch_size : (index + 1) * batch_size])

    def evaluation_batches(self, split, batch_size, limit=None):
        ids = self._ids(split)[:limit]
        for start in range(0, len(ids), batch_size):
            yield self._batch(ids[start : start + batch_size])

    def restricted(self, splits):
        return RestrictedDataSet(self, frozenset(splits))

    def _ids(self, split):
        return np.arange(self.count) if split == "train" else np.arange(self.count, self.count + 60)

    def _batch(self, ids):
        return Batch(self.inputs[ids], self.targets[ids], np.asarray(ids), np.zeros(len(ids), np.int64))


class Classify:
    """The least that a task needs for training."""

    name = "clusters"
    metric = "accuracy"

    def loss(self, outputs, targets, label_smoothing):
        return functional.cross_entropy(outputs, targets, label_smoothing=label_smoothing)

    def evaluate(self, model, data, split, batch_size, device):
        model.eval()
        with torch.inference_mode():
            right = [
                (model(b.inputs.to(device)).argmax(1).cpu() == b.targets).float()
                for b in data.evaluation_batches(split, batch_size)
            ]
        return {"accuracy": float(torch.cat(right).mean())}


def network(seed=0, dropout=0.1):
    """A net with everything that makes training order-dependent: batch statistics, dropout, an in-place activation."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True)),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(6 * 36, 3),
    )


def settings(**changes):
    return TrainingSettings.model_validate({"epochs": 3, "batch_size": 16, "learning_rate": 5e-3, **changes})


def silent(message, **fields):
    pass


def run(work, model=None, data=None, task=None, changes=None, around=None, **options):
    """Trains and returns the result and the model."""
    model = network() if model is None else model
    arguments = {"seed": 0, "device": "cpu", "work": work, "progress": silent, **options}
    with around or nullcontext():
        result = train(model, task or Classify(), data or Clusters(), settings(**(changes or {})), **arguments)
    return result, model


def same_bytes(one, two):
    """Whether all weights and buffers of two networks are equal to the last bit."""
    first, second = one.state_dict(), two.state_dict()
    return list(first) == list(second) and all(
        first[name].numpy().tobytes() == second[name].numpy().tobytes() for name in first
    )
