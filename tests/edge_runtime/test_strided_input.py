from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edge_runtime.engines import open_engine

onnx = pytest.importorskip("onnx", reason="the model is made with it")


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_strided_input_is_read_right_while_memory_is_used_again(tmp_path: Path, engine: str) -> None:
    """An engine that shares memory with a contiguous copy has to keep the copy until it has answered."""
    pytest.importorskip(engine, reason="the engine is not installed")
    from onnx import TensorProto, helper

    shape = [1, 3, 28, 28]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["input"], ["output"])],
        "relu",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
    )
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    opened = open_engine(path, engine)
    rng = np.random.default_rng(0)
    for _ in range(20):
        strided = rng.random((1, 28, 28, 3), dtype=np.float32).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(opened.run([strided])[0], strided)
