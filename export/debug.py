"""Float file against INT8 file, tensor by tensor, on the same inputs: where accuracy goes.

Two errors are told apart: `decibel` is of the INT8 file's own value, with everything that went wrong before it, and
`rounding_decibel` is what this tensor's own scale does to the float value. A tensor with a low second figure has a bad
range; one with a low first figure alone suffers from those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.protocol import Array
from edge_runtime.quantization import Quantization, dequantize, quantize
from export.errors import ConversionError
from export.graph import Graph, float_islands, float_operators
from export.inspect import read_graph

MAX_DECIBEL = 200.0


@dataclass(frozen=True)
class Layer:
    """One tensor, over all samples. `low` to `high` are the float values, `covered` what its scale can hold.

    `clipped` is the share of float values outside of that. `cosine` is between float and INT8 values.
    """

    name: str
    operator: str
    decibel: float
    rounding_decibel: float
    cosine: float
    low: float
    high: float
    covered: tuple[float, float]
    clipped: float


@dataclass(frozen=True)
class Diagnosis:
    """`layers`: worst first. `islands`: regions of float operators between INT8 ones. `conversions`: operators that go
    between the two. `how` names what ran the files."""

    samples: int
    layers: tuple[Layer, ...]
    float_operators: tuple[str, ...]
    islands: tuple[tuple[str, ...], ...]
    conversions: int
    how: str


class _Tensors(Protocol):
    def run(self, array: NDArray[Any]) -> dict[str, NDArray[Any]]: ...
    def quantizations(self) -> dict[str, Quantization]: ...


class _Sums:
    """What is added up for one tensor, sample by sample."""

    def __init__(self) -> None:
        self.signal = self.other = self.product = self.noise = self.rounding = 0.0
        self.low, self.high = np.inf, -np.inf
        self.outside = self.count = 0

    def add(self, real: NDArray[np.float32], stored: Array, quantization: Quantization) -> None:
        limits = np.iinfo(quantization.dtype)
        ends = dequantize(np.asarray([limits.min, limits.max], quantization.dtype), quantization)
        half = quantization.scale / 2
        value = dequantize(stored, quantization).reshape(-1).astype(np.float64)
        rounded = dequantize(quantize(real, quantization), quantization).reshape(-1)
        exact = real.reshape(-1).astype(np.float64)
        self.signal += float(exact @ exact)
        self.other += float(value @ value)
        self.product += float(exact @ value)
        self.noise += float(np.square(exact - value).sum())
        self.rounding += float(np.square(exact - rounded).sum())
        self.low, self.high = min(self.low, float(exact.min())), max(self.high, float(exact.max()))
        self.outside += int(((exact < ends[0] - half) | (exact > ends[1] + half)).sum())
        self.count += exact.size

    def layer(self, name: str, operator: str, quantization: Quantization) -> Layer:
        limits = np.iinfo(quantization.dtype)
        low, high = ((end - quantization.zero_point) * quantization.scale for end in (limits.min, limits.max))
        size = (self.signal * self.other) ** 0.5
        return Layer(
            name=name,
            operator=operator,
            decibel=_decibel(self.signal, self.noise),
            rounding_decibel=_decibel(self.signal, self.rounding),
            cosine=self.product / size if size > 0 else float(self.signal == self.other),
            low=self.low,
            high=self.high,
            covered=(float(low), float(high)),
            clipped=self.outside / max(self.count, 1),
        )


def diagnose(float_file: Path, int8_file: Path, inputs: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> Diagnosis:
    """Compares every activation that the INT8 file stores in 8 bits with the float file's.

    `inputs` gives pairs: the same sample as the float file and as the INT8 file takes it. Samples are read one at a
    time, and none is kept. Raises ConversionError when the files share no tensor.
    """
    float_graph, graph = read_graph(float_file), read_graph(int8_file)
    reference, compared = _open(float_file), _open(int8_file)
    quantizations = compared.quantizations()
    operators = _writers(float_graph)
    names = {name: stored for name in operators for stored in (name, f"{name}_quantized") if stored in quantizations}
    sums = {name: _Sums() for name in names}
    samples = 0
    for real, integer in inputs:
        exact, found = reference.run(real), compared.run(integer)
        samples += 1
        for name, stored in names.items():
            value = exact.get(name)
            if value is None or stored not in found or value.shape != found[stored].shape:
                continue
            if np.isfinite(value).all():  # max pooling pads with minus infinity
                sums[name].add(value, found[stored], quantizations[stored])
    layers = [sums[name].layer(name, operators[name], quantizations[stored]) for name, stored in names.items()]
    layers = [layer for layer in layers if sums[layer.name].count]
    if not layers:
        raise ConversionError(f"{int8_file.name} holds no 8-bit activation that {float_file.name} has too")
    return Diagnosis(
        samples=samples,
        layers=tuple(sorted(layers, key=lambda layer: layer.decibel)),
        float_operators=tuple(operator.name for operator in float_operators(graph)),
        islands=tuple(tuple(operator.name for operator in island) for island in float_islands(graph)),
        conversions=sum(operator.domain == "convert" for operator in graph.operators),
        how="LiteRT without XNNPACK" if int8_file.suffix == ".tflite" else "ONNX Runtime without graph optimization",
    )


def _open(path: Path) -> _Tensors:
    if path.suffix == ".tflite":
        from export.tensors_tflite import TfliteTensors

        return TfliteTensors(path.read_bytes())
    from export.tensors_onnx import OnnxTensors

    return OnnxTensors(path)


def _writers(graph: Graph) -> dict[str, str]:
    """The kind of the operator that computes each activation, by the tensor's name; `input` for what is fed."""
    kinds: Mapping[str, str] = {name: operator.kind for operator in graph.operators for name in operator.writes}
    read = {name: "input" for operator in graph.operators for name in operator.reads if name not in kinds}
    return {name.rpartition("#")[0] or name: kind for name, kind in {**read, **kinds}.items()}


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return MAX_DECIBEL
    if signal == 0:
        return -MAX_DECIBEL
    return float(np.clip(10 * np.log10(signal / noise), -MAX_DECIBEL, MAX_DECIBEL))
