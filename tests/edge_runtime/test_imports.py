"""What the runtime may import, and when: it has to start fast on a camera, with numpy and one engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.edge_runtime.model_files import write_tflite

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("torch", "tensorflow", "onnx", "pydantic", "yaml", "export", "compress")


def modules_after(code: str, *arguments: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `code`."""
    code += "\nimport sys, json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    child = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(child.stdout.splitlines()[-1]))


def test_the_command_line_loads_no_numpy_before_it_needs_it() -> None:
    loaded = modules_after("import edge_runtime.__main__")
    assert not loaded & {"numpy", "cv2", "PIL", "ai_edge_litert", "onnxruntime", "openvino", *FRAMEWORKS}


def test_contracts_are_read_without_numpy() -> None:
    assert "numpy" not in modules_after("import edge_runtime.contract, edge_runtime.errors, edge_runtime.files")


def test_a_session_loads_its_engine_and_no_other(tmp_path: Path) -> None:
    path = write_tflite(tmp_path / "model.tflite")
    code = "import sys; from edge_runtime.session import open_session; open_session(sys.argv[1])"
    loaded = modules_after(code, str(path))
    assert {"numpy", "ai_edge_litert"} <= loaded
    assert not loaded & {"onnxruntime", "openvino", "cv2", "PIL", *FRAMEWORKS}


def test_starting_costs_less_than_a_fifth_of_a_second_of_processor_time_beyond_numpy() -> None:
    def seconds(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    everything = "import edge_runtime.session, edge_runtime.evaluate, edge_runtime.benchmark, edge_runtime.__main__"
    pairs = [(seconds(everything), seconds("import numpy")) for _ in range(4)]
    assert min(ours for ours, _ in pairs) - min(bare for _, bare in pairs) < 0.2


@pytest.mark.slow
def test_the_base_install_and_one_engine_run_a_model(tmp_path: Path) -> None:
    """A new environment with `pip install .[litert]`: nothing that trains or converts is there, and a model runs."""
    model = write_tflite(tmp_path / "model.tflite")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    started = time.monotonic()
    install = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", f"{_source(tmp_path)}[litert]"],
        capture_output=True,
        text=True,
        check=False,
    )
    if install.returncode != 0 and "No matching distribution" in install.stderr:
        pytest.skip(f"no package index within reach ({time.monotonic() - started:.0f} s)")
    assert install.returncode == 0, install.stderr
    check = (
        "import importlib.util, sys\n"
        "from edge_runtime.__main__ import main\n"
        "import numpy as np\n"
        "np.save('image.npy', np.zeros((8, 8, 3), np.uint8))\n"
        "assert main(['run', sys.argv[1], 'image.npy']) == 0\n"
        "names = ('torch', 'tensorflow', 'onnx', 'onnxruntime', 'openvino', 'pydantic', 'cv2')\n"
        "there = [name for name in names if importlib.util.find_spec(name) or name in sys.modules]\n"
        "assert not there, there\n"
    )
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    child = subprocess.run(
        [python, "-c", check, str(model)], capture_output=True, text=True, check=False, cwd=tmp_path, env=clean
    )
    assert child.returncode == 0, child.stderr
    assert "cat" in child.stdout
    (tmp_path / "model.onnx").write_bytes(b"any")
    other = subprocess.run(
        [python, "-m", "edge_runtime", "inspect", "model.onnx"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=clean,
    )
    assert other.returncode == 5
    assert other.stderr.startswith(
        "error: engine 'onnxruntime' needs the package onnxruntime: pip install edgepress[onnx]"
    )


def _source(tmp_path: Path) -> Path:
    """A copy of what is packaged: building in the checkout would leave folders there."""
    import shutil

    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source / name)
        else:
            (source / name).write_text("")
    for package in ("edge_runtime", "export", "compress"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    return source
