"""A killed run continues as if nothing had happened: bit-equal on the CPU."""

import errno
import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from compress.errors import EnvironmentProblem
from compress.training.checkpoint import FILE, Checkpoint
from tests.training.nets import Classify, Clusters, network, run, same_bytes

EVERYTHING = {
    "epochs": 3, "checkpoint_every": 0, "ema": 0.9, "clip_norm": 0.5, "accumulation": 3, "label_smoothing": 0.1,
    "early_stopping": {"patience": 2}, "schedule": "one-cycle",
}  # fmt: skip


class Interrupted(Exception):
    pass


def interrupt_after(steps):
    """An objective that also draws from the three global random states, and fails after so many calls."""
    calls = iter(range(steps))

    def objective(model, batch):
        if next(calls, None) is None:
            raise Interrupted
        return noisy(model, batch)

    return objective


def noisy(model, batch):
    scale = 1 + 0.01 * (random.random() + np.random.rand() + torch.rand(()).item())
    return Classify().loss(model(batch.inputs), batch.targets, 0.1) * scale


def timeless(result):
    return replace(result, seconds=0.0, history=tuple(replace(record, seconds=0.0) for record in result.history))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("undisturbed"), changes=EVERYTHING, objective=noisy)


@pytest.mark.parametrize("calls", [1, 4, 17, 18, 19, 40, 53])  # three calls make a step, eighteen an epoch
def test_an_interrupted_run_ends_bit_equal(tmp_path, undisturbed, calls):
    with pytest.raises(Interrupted):
        run(tmp_path, changes=EVERYTHING, objective=interrupt_after(calls))
    random.seed(9)
    result, model = run(tmp_path, changes=EVERYTHING, objective=noisy)
    assert same_bytes(model, undisturbed[1])
    assert timeless(result) == timeless(undisturbed[0])


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_every_optimizer_continues_bit_equal(tmp_path, optimizer):
    changes = {"epochs": 2, "optimizer": optimizer, "checkpoint_every": 0}
    whole = run(tmp_path / "whole", changes=changes, objective=noisy)[1]
    with pytest.raises(Interrupted):
        run(tmp_path / "cut", changes=changes, objective=interrupt_after(7))
    assert same_bytes(run(tmp_path / "cut", changes=changes, objective=noisy)[1], whole)


def test_a_continued_run_reads_only_what_is_left(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path, changes={"checkpoint_every": 0}, objective=interrupt_after(9))
    data = Clusters()
    told = []
    run(tmp_path, data=data, changes={"checkpoint_every": 0}, objective=noisy,
        progress=lambda message, **fields: told.append(message))  # fmt: skip
    assert data.reads[0] == (1, 3)
    assert told[0] == "continues in epoch 2 at batch 3"


def test_a_finished_run_returns_at_once_with_the_same_result(tmp_path):
    result, model = run(tmp_path)
    data = Clusters()
    again, loaded = run(tmp_path, data=data)
    assert again == result
    assert same_bytes(loaded, model)
    assert not loaded.training
    assert data.reads == []


@pytest.mark.parametrize("difference", ["settings", "seed", "weights", "data"])
def test_state_of_another_run_is_ignored(tmp_path, difference):
    data = Clusters()
    run(tmp_path)
    options = {
        "settings": {"changes": {"learning_rate": 1e-3}},
        "seed": {"seed": 5},
        "weights": {"model": network(seed=8)},
        "data": {},
    }[difference]
    if difference == "data":
        data.digest = "other"
    run(tmp_path, data=data, **options)
    assert len(data.reads) == 18


def test_how_often_state_is_written_does_not_matter_to_the_run(tmp_path):
    result, _ = run(tmp_path, changes={"checkpoint_every": 0})
    assert run(tmp_path, changes={"checkpoint_every": 999.0})[0] == result


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"\x80\x02cos\nsystem\n"])
def test_damaged_state_is_ignored_and_runs_no_code(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    data = Clusters()
    run(tmp_path, data=data)
    assert len(data.reads) == 18


def test_state_holds_tensors_and_plain_values_only(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path, changes=EVERYTHING, objective=interrupt_after(20))
    stored = torch.load(tmp_path / FILE, weights_only=True)
    assert {"state", "model", "chosen", "optimizer", "scaler", "average", "random"} <= set(stored)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_state_is_written_every_so_many_seconds_and_at_the_ends_of_epochs(tmp_path, monkeypatch):
    written = []
    original = Checkpoint.write
    monkeypatch.setattr(
        Checkpoint, "write", lambda self, content: written.append(content["state"]["step"]) or original(self, content)
    )
    run(tmp_path / "1", changes={"checkpoint_every": 0})
    assert written == [*range(1, 7), 6, *range(7, 13), 12, *range(13, 19), 18, 18]


def test_short_epochs_are_not_slowed_by_writing(tmp_path):
    checkpoint = Checkpoint(tmp_path, "x", every=60.0)
    assert checkpoint.due(epoch_ended=True)
    assert not checkpoint.due()
    checkpoint.write({"tensor": torch.zeros(10)})
    checkpoint._cost = 1.0
    assert not checkpoint.due(epoch_ended=True)
    checkpoint._written -= 101
    assert checkpoint.due(epoch_ended=True)


def test_a_full_disk_is_a_problem_of_the_environment(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(EnvironmentProblem, match=r"training state cannot be written to .*: the disk is full"):
        run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_torch_reports_in_its_own_way_is_a_full_disk_too(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    checkpoint = Checkpoint(tmp_path, "x", every=60.0)
    (tmp_path / f".{FILE}.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(EnvironmentProblem, match="the disk is full"):
        checkpoint.write({"tensor": torch.zeros(1000)})


def train_and_save(work, began):
    began.set()
    _, model = run(work, changes={"epochs": 12, "checkpoint_every": 0.03, "ema": 0.9, "keep": "last"})
    save_file(model.state_dict(), work / "weights.safetensors")


@pytest.fixture(scope="module")
def processes():
    """Children of a fresh process that has imported torch once: each starts within milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "tests.training.nets"])
    return context


def start(context, work):
    work.mkdir(exist_ok=True)
    began = context.Event()
    child = context.Process(target=train_and_save, args=(work, began))
    child.start()
    began.wait()
    return child


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_a_process_killed_at_random_moments_ends_with_the_same_bytes(tmp_path, processes, kills):
    start(processes, tmp_path / "warm").join()
    whole = start(processes, tmp_path / "whole")
    began = time.monotonic()
    whole.join()
    longest = (time.monotonic() - began) / 2
    generator, killed = random.Random(kills), 0
    for _ in range(kills):
        child = start(processes, tmp_path / "killed")
        time.sleep(generator.uniform(0, longest))
        child.kill()
        child.join()
        killed += child.exitcode == -signal.SIGKILL
    last = start(processes, tmp_path / "killed")
    last.join()
    assert last.exitcode == 0
    assert killed > 0
    files = [tmp_path / name / "weights.safetensors" for name in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
