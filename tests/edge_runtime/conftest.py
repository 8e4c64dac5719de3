"""Model files and engines that the tests of the runtime share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.edge_runtime.model_files import write_onnx, write_tflite

ENGINES = {"litert": "ai_edge_litert", "onnxruntime": "onnxruntime", "openvino": "openvino"}


@pytest.fixture(params=sorted(ENGINES))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Every engine in turn: what a test says with this fixture holds for all of them."""
    name: str = request.param
    if importlib.util.find_spec(ENGINES[name]) is None:
        pytest.skip(f"the engine {name} is not installed")
    if name != "litert":
        pytest.importorskip("onnx", reason="makes the test's model file")
    return name


@pytest.fixture
def write_model(engine_name: str, tmp_path: Path) -> Callable[..., Path]:
    """Writes a model file of the type that the engine runs; takes the arguments of the writers."""

    def write(**arguments: object) -> Path:
        if engine_name == "litert":
            return write_tflite(tmp_path / "model.tflite", **arguments)  # type: ignore[arg-type]
        return write_onnx(tmp_path / "model.onnx", **arguments)  # type: ignore[arg-type]

    return write
