from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.errors import EngineError
from edge_runtime.memory import measure_memory, peak_memory, process_peak
from tests.edge_runtime.model_files import write_onnx, write_tflite

MIB = 2**20


def test_a_fresh_process_says_what_loading_and_running_took(tmp_path: Path) -> None:
    use = measure_memory(write_tflite(tmp_path / "model.tflite"))
    assert 15 * MIB < use.before <= use.peak < 300 * MIB


def test_a_larger_model_takes_more(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    import numpy as np
    from onnx import helper, numpy_helper

    weight = np.random.default_rng(0).random((1024, 6 * 1024), dtype=np.float32)  # 24 MiB
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "main",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 1024))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 6 * 1024))],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "large.onnx")
    write_onnx(tmp_path / "small.onnx")
    small, large = peak_memory(tmp_path / "small.onnx"), peak_memory(tmp_path / "large.onnx")
    assert large - small > 20 * MIB


def test_the_memory_of_the_parent_does_not_count(tmp_path: Path) -> None:
    path = write_tflite(tmp_path / "model.tflite")
    code = (
        "import sys; ballast = bytearray(300 * 2**20); ballast[::4096] = b'x' * len(ballast[::4096])\n"
        "from edge_runtime.memory import peak_memory; print(peak_memory(sys.argv[1]))"
    )
    child = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(child.stdout) < 250 * MIB


def test_the_peak_of_this_process_does_not_fall() -> None:
    before = process_peak()
    ballast = bytearray(64 * MIB)
    ballast[::4096] = b"x" * len(ballast[::4096])
    del ballast
    assert process_peak() >= max(before, 64 * MIB)


def test_the_cause_of_a_failure_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="failed: no model file at"):
        peak_memory(tmp_path / "none.tflite")


def test_a_child_that_is_killed_is_told_by_its_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tflite(tmp_path / "model.tflite")
    killer = tmp_path / "python"
    killer.write_text("#!/bin/sh\nkill -SEGV $$\n")
    killer.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(killer))
    with pytest.raises(EngineError, match="killed by SIGSEGV"):
        peak_memory(path)


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tflite(tmp_path / "model.tflite")
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\nexec sleep 30\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    with pytest.raises(EngineError, match=r"took more than 0\.2 s"):
        peak_memory(path, timeout=0.2)
