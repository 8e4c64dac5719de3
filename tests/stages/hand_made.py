"""Exported files and their variants made by hand, so that the stages can be tested without a converter."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from compress.models.variant import FileVariant, TorchVariant
from compress.stages.protocol import StageContext
from edge_runtime import contract as contracts
from edge_runtime.contract import Contract
from export.request import Inspection, Parity
from export.targets import TARGETS
from tests.measurement.fake_data import CONTRACT, LABELS, FakeData


def quadrant_weights(confused: tuple[tuple[int, int], ...] = ()) -> NDArray[np.float32]:
    """(4, 48): each class looks at its quarter of the image. `confused` pairs (class, other) swap what they look at."""
    weights = np.zeros((4, 3, 4, 4), dtype=np.float32)
    for label in range(4):
        top, left = (label // 2) * 2, (label % 2) * 2
        weights[label, :, top : top + 2, left : left + 2] = 1
    for one, other in confused:
        weights[[one, other]] = weights[[other, one]]
    return weights.reshape(4, 48)


def write_onnx(path: Path, weights: NDArray[np.float32], *, work: int = 0) -> None:
    """A linear classifier as ONNX; `work` adds that many products of 256 x 256 matrices that change no answer."""
    nodes = [helper.make_node("Flatten", ["input"], ["flat"])]
    values = [numpy_helper.from_array(weights.T.copy(), "weights")]
    last = "flat"
    if work:
        values.append(numpy_helper.from_array(np.full((48, 256), 1e-3, np.float32), "into"))
        values.append(numpy_helper.from_array(np.full((256, 256), 1e-3, np.float32), "square"))
        values.append(numpy_helper.from_array(np.zeros((256, 4), np.float32), "nothing"))
        nodes.append(helper.make_node("MatMul", ["flat", "into"], ["w0"]))
        for index in range(work):
            nodes.append(helper.make_node("MatMul", [f"w{index}", "square"], [f"w{index + 1}"]))
        nodes.append(helper.make_node("MatMul", [f"w{work}", "nothing"], ["zeros"]))
    nodes.append(helper.make_node("MatMul", [last, "weights"], ["scores"]))
    nodes.append(helper.make_node("Add", ["scores", "zeros"] if work else ["scores", "none"], ["output"]))
    if not work:
        values.append(numpy_helper.from_array(np.zeros((1, 4), np.float32), "none"))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 4])],
        values,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    contracts.save(CONTRACT, contracts.contract_path(path))


def torch_variant(name: str, directory: Path, contract: Contract = CONTRACT) -> TorchVariant:
    return TorchVariant(name, f"digest-{name}", directory, contract, 192, 192, (), {"accuracy": 1.0})


def file_variant(
    directory: Path,
    parent: TorchVariant,
    precision: str = "fp32",
    *,
    confused: tuple[tuple[int, int], ...] = (),
    work: int = 0,
) -> FileVariant:
    folder = directory / parent.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"model-{precision}.onnx"
    write_onnx(path, quadrant_weights(confused), work=work)
    values: dict[str, Any] = {
        "name": f"{parent.name}/onnx-{precision}",
        "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
        "path": path,
        "format": "onnx",
        "precision": precision,
        "contract": CONTRACT,
        "parameters": 192,
        "macs": 192,
        "lineage": (parent.name,),
        "parent": parent,
        "parity": Parity(8, 1e-6, 1e-7, 100.0, 1.0),
        "inspection": Inspection({"MatMul": 1}, 768, 192, 0.0, 0.0, 0, 0),
        "scheme": "float",
    }
    return FileVariant(**values)


class Progress:
    """Keeps what a stage says of its progress."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.fractions: list[float] = []

    def __call__(self, message: str, *, fraction: float | None = None, **fields: Any) -> None:
        self.messages.append(message)
        if fraction is not None:
            self.fractions.append(fraction)


def context(tmp_path: Path, names: tuple[str, ...], data: FakeData, **changes: Any) -> StageContext:
    folders = {name: tmp_path / name for name in ("work", "output", "shared")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    values: dict[str, Any] = {
        "stage_id": "stage",
        "names": names,
        "seed": 3,
        "task": SimpleNamespace(name="image-classification", metric="accuracy"),
        "data": data,
        "target": TARGETS["x86-avx2"],
        "device": "cpu",
        "progress": Progress(),
        "variants": {},
        **folders,
    }
    return StageContext(**(values | changes))


__all__ = ["LABELS", "Progress", "context", "file_variant", "quadrant_weights", "torch_variant", "write_onnx"]
