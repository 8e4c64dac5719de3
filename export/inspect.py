"""What is inside a model file: operators by type, weight bytes, MACs, INT8 shares, transposes, float islands.

Everything is counted from the file itself, never from what made it.
"""

from __future__ import annotations

from pathlib import Path

from export.errors import ConversionError
from export.graph import Graph, float_operators, summarize
from export.request import Inspection

INT8_SHARE = 0.95
"""A file is called INT8 only when at least this share of its weight bytes and of its MACs is."""
_NAMED = 5


def inspect_file(path: str | Path) -> Inspection:
    """Counts of a `.onnx` or `.tflite` file. Raises ValueError for another suffix."""
    return summarize(read_graph(path))


def read_graph(path: str | Path) -> Graph:
    """The operators of a file. Imports only the reader of its format."""
    suffix = Path(path).suffix
    if suffix == ".onnx":
        from export.inspect_onnx import read_onnx

        return read_onnx(str(path))
    if suffix == ".tflite":
        from export.inspect_tflite import read_tflite

        return read_tflite(str(path))
    raise ValueError(f"expected a .onnx or .tflite file, got {path}")


def require_int8(graph: Graph, inspection: Inspection) -> None:
    """Raises ConversionError when a graph may not be called INT8; names the operators that stayed float."""
    if inspection.int8_weight_share >= INT8_SHARE and inspection.int8_mac_share >= INT8_SHARE:
        return
    found = float_operators(graph)
    names = ", ".join(f"{operator.name} ({operator.macs} MACs)" for operator in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    raise ConversionError(
        f"the file is not INT8: {inspection.int8_weight_share:.1%} of its weight bytes and "
        f"{inspection.int8_mac_share:.1%} of its multiply-accumulates are, at least {INT8_SHARE:.0%} of both are "
        f"needed; these operators stayed float: {names}{more}",
        "not-int8",
    )
