"""A model file as a list of operators, whatever its format, and what can be counted on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

from export.request import Inspection

Domain = Literal["int8", "float", "convert", "other"]

_MOVES_AXES = {"Transpose", "TRANSPOSE"}


@dataclass(frozen=True)
class Weight:
    """A constant that operators compute with. Biases, scales and shapes are none."""

    name: str
    bytes: int
    int8: bool


@dataclass(frozen=True)
class Operator:
    """`reads` and `writes` name the activations. `macs`: multiply-accumulates, counted from the shapes.

    Domain: `int8` computes on 8-bit operands (activations may be quantized while running), `float` on floats,
    `convert` goes between the two, `other` handles neither (shapes, indices).
    """

    kind: str
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    domain: Domain
    macs: int = 0
    weights: tuple[Weight, ...] = ()


@dataclass(frozen=True)
class Graph:
    """The operators in the order of the file."""

    operators: tuple[Operator, ...]


def summarize(graph: Graph) -> Inspection:
    """The counts of a graph. Shares of nothing (no weights, no MACs) are 0."""
    weights = {weight.name: weight for operator in graph.operators for weight in operator.weights}.values()
    weight_bytes = sum(weight.bytes for weight in weights)
    macs = sum(operator.macs for operator in graph.operators)
    int8_macs = sum(operator.macs for operator in graph.operators if operator.domain == "int8")
    kinds = Counter(operator.kind for operator in graph.operators)
    return Inspection(
        operators=dict(sorted(kinds.items())),
        weight_bytes=weight_bytes,
        macs=macs,
        int8_weight_share=sum(weight.bytes for weight in weights if weight.int8) / max(weight_bytes, 1),
        int8_mac_share=int8_macs / max(macs, 1),
        transposes=sum(count for kind, count in kinds.items() if kind in _MOVES_AXES),
        float_islands=len(float_islands(graph)),
    )


def float_operators(graph: Graph) -> tuple[Operator, ...]:
    """The operators that compute on floats, those with most multiply-accumulates first."""
    found = [operator for operator in graph.operators if operator.domain == "float"]
    return tuple(sorted(found, key=lambda operator: -operator.macs))


def float_islands(graph: Graph) -> tuple[tuple[Operator, ...], ...]:
    """The connected regions of float operators that INT8 values flow into and out of."""
    writer = {name: operator for operator in graph.operators for name in operator.writes}
    readers: dict[str, list[Operator]] = defaultdict(list)
    for operator in graph.operators:
        for name in operator.reads:
            readers[name].append(operator)
    islands, seen = [], set[int]()
    for start in graph.operators:
        if start.domain != "float" or id(start) in seen:
            continue
        region, entered, left = [start], False, False
        seen.add(id(start))
        for operator in region:  # grows while it is walked
            before = [writer[name] for name in operator.reads if name in writer]
            after = [reader for name in operator.writes for reader in readers[name]]
            entered = entered or any(_from_int8(source, writer) for source in before)
            left = left or any(reader.domain == "convert" for reader in after)
            for neighbour in before + after:
                if neighbour.domain == "float" and id(neighbour) not in seen:
                    seen.add(id(neighbour))
                    region.append(neighbour)
        if entered and left:
            islands.append(tuple(region))
    return tuple(islands)


def _from_int8(source: Operator, writer: dict[str, Operator]) -> bool:
    """True for an INT8 operator, and for a conversion of something that an operator computed."""
    return source.domain == "int8" or (source.domain == "convert" and any(name in writer for name in source.reads))
