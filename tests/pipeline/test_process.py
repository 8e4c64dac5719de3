"""Random state, devices, and the folder of a run."""

from __future__ import annotations

import os
import random
import signal
import sys
import weakref
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from compress.errors import EnvironmentProblem, RecipeError, StageError
from compress.pipeline.failures import as_failure
from compress.pipeline.process import check_device, free_memory, interruptible, resolve_device, seed_everything
from edge_runtime.errors import ModelFileError
from export.errors import ConversionError


def test_the_global_generators_start_every_stage_alike() -> None:
    seed_everything(2**32 - 1, ())
    first = (random.random(), np.random.random())
    random.random()
    seed_everything(2**32 - 1, ())
    assert (random.random(), np.random.random()) == first


class FakeTorch(ModuleType):
    """As much of torch as this code uses; importing the real one takes seconds."""

    def __init__(self, devices: int) -> None:
        super().__init__("torch")
        self.__spec__ = ModuleSpec("torch", None)
        self.seeds: list[int] = []
        self.freed = 0
        self.manual_seed = self.seeds.append
        self.cuda = SimpleNamespace(
            is_available=lambda: devices > 0, device_count=lambda: devices, empty_cache=self._free
        )

    def _free(self) -> None:
        self.freed += 1


def fake_torch(monkeypatch: pytest.MonkeyPatch, devices: int = 0) -> FakeTorch:
    torch = FakeTorch(devices)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_torch_is_seeded_for_stages_that_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch(monkeypatch)
    seed_everything(3, ("torch",))
    assert torch.seeds == [3]


def test_after_a_stage_cycles_are_collected_and_the_accelerator_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    class Node:
        pass

    torch = fake_torch(monkeypatch, devices=1)
    node = Node()
    node.itself = node  # type: ignore[attr-defined]
    gone = weakref.ref(node)
    del node
    free_memory()
    assert gone() is None
    assert torch.freed == 1


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1"])
def test_known_devices_pass(device: str) -> None:
    check_device(device)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "", "cpu0"])
def test_other_texts_are_refused(device: str) -> None:
    with pytest.raises(RecipeError, match="expected auto, cpu, cuda or cuda:N"):
        check_device(device)


def test_a_device_that_is_not_there_is_an_environment_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(monkeypatch, devices=2)
    assert resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(EnvironmentProblem, match="device cuda:2 was asked for, but torch finds 2 CUDA devices"):
        resolve_device("cuda:2")


@pytest.mark.parametrize(("devices", "device"), [(0, "cpu"), (2, "cuda")])
def test_auto_takes_cuda_where_there_is_one(monkeypatch: pytest.MonkeyPatch, devices: int, device: str) -> None:
    fake_torch(monkeypatch, devices)
    assert resolve_device("auto") == device
    assert resolve_device("cpu") == "cpu"


def test_sigterm_interrupts_inside_of_the_block_and_is_as_before_after_it() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def wait_for_it() -> None:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()

    with pytest.raises(KeyboardInterrupt):
        wait_for_it()
    assert signal.getsignal(signal.SIGTERM) is before


def test_errors_on_purpose_keep_their_words_and_others_are_named(tmp_path: Path) -> None:
    def text(error: Exception) -> str:
        failure = as_failure(error, "stage 'files'", tmp_path)
        assert isinstance(failure, StageError)
        return str(failure)

    assert text(ConversionError("aten::foo in layer3 has no converter")).endswith(
        "stage 'files' failed: aten::foo in layer3 has no converter"
    )
    assert text(ModelFileError("model.tflite is truncated")) == "stage 'files' failed: model.tflite is truncated"
    assert text(RecipeError(["classes: 10 expected"])) == "stage 'files' failed: classes: 10 expected"
    assert text(ValueError("x")) == "stage 'files' failed: ValueError: x"
    assert text(FileNotFoundError(2, "No such file", "/a")).startswith("stage 'files' failed: FileNotFoundError")


def test_a_store_that_can_no_longer_be_written_is_an_environment_problem(tmp_path: Path) -> None:
    error = PermissionError(13, "Permission denied", str(tmp_path / "blobs/ab"))
    failure = as_failure(error, "stage 'files'", tmp_path)
    assert isinstance(failure, EnvironmentProblem)
    assert "blobs/ab cannot be used: Permission denied" in str(failure)
    assert isinstance(as_failure(PermissionError(13, "Permission denied", "/etc/x"), "x", tmp_path), StageError)
