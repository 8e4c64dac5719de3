from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from export.errors import ConversionError
from export.graph import Graph, Operator, Weight, float_islands, float_operators, summarize
from export.inspect import inspect_file, read_graph, require_int8
from export.request import FORMATS, PRECISIONS, Format, Precision
from tests.export.conftest import Converted
from tests.export.networks import CLASSES

BOTH = pytest.mark.parametrize("format_", FORMATS)
STEM, EXPAND, DEPTHWISE = 144 * 8 * 27, 36 * 16 * 8, 36 * 16 * 9
MACS = STEM + 2 * EXPAND + DEPTHWISE + 8 * CLASSES
WEIGHTS = 8 * 27 + 2 * 16 * 8 + 16 * 9 + 8 * CLASSES


@BOTH
@pytest.mark.parametrize("precision", PRECISIONS)
def test_macs_and_weights_are_counted_alike_in_both_formats(
    converted: dict[Format, Converted], format_: Format, precision: Precision
) -> None:
    inspection = inspect_file(converted[format_].file(precision).path)
    width = {"fp32": 4, "fp16": 2}.get(precision, 1)
    assert inspection.macs == MACS
    assert inspection.weight_bytes == WEIGHTS * width
    assert inspection.int8_weight_share == inspection.int8_mac_share == (width == 1)
    assert inspection == converted[format_].file(precision).inspection


@BOTH
def test_int8_files_have_no_islands_and_no_transposes(converted: dict[Format, Converted], format_: Format) -> None:
    inspection = converted[format_].file("int8").inspection
    assert (inspection.float_islands, inspection.transposes) == (0, 0)


@BOTH
def test_a_float_file_may_not_be_called_int8_and_its_operators_are_named(
    converted: dict[Format, Converted], format_: Format
) -> None:
    graph = read_graph(converted[format_].file("fp32").path)
    with pytest.raises(ConversionError) as caught:
        require_int8(graph, summarize(graph))
    assert caught.value.kind == "not-int8"
    assert "0.0% of its weight bytes" in str(caught.value)
    assert f"({STEM} MACs)" in str(caught.value)
    if format_ == "onnx":
        assert "stem/Conv" in str(caught.value)


def test_a_file_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a \.onnx or \.tflite file"):
        inspect_file(tmp_path / "model.pt")


def _operator(name: str, domain: str, reads: str, writes: str, macs: int = 0, weight: Weight | None = None) -> Operator:
    weights = (weight,) if weight else ()
    return Operator("Conv", name, tuple(reads), tuple(writes), domain, macs, weights)  # type: ignore[arg-type]


_ISLANDS = Graph(
    (
        _operator("quantize", "convert", "x", "a"),
        _operator("first", "int8", "a", "b", 97, Weight("w1", 97, True)),
        _operator("dequantize", "convert", "b", "c"),
        _operator("inner", "float", "c", "d", 1, Weight("w2", 1, False)),
        _operator("inner2", "float", "d", "e"),
        _operator("requantize", "convert", "e", "f"),
        _operator("last", "int8", "f", "g", 2, Weight("w3", 2, True)),
        _operator("end", "convert", "g", "h"),
        _operator("decoder", "float", "h", "i"),
    )
)


def test_an_island_is_a_region_between_int8_ones_and_a_decoder_at_the_end_is_none() -> None:
    assert [[operator.name for operator in island] for island in float_islands(_ISLANDS)] == [["inner", "inner2"]]


def test_a_float_stem_before_the_first_int8_operator_is_no_island() -> None:
    graph = Graph((_operator("stem", "float", "x", "a"), _operator("quantize", "convert", "a", "b")))
    assert float_islands(graph) == ()


def test_shares_are_of_bytes_and_macs() -> None:
    inspection = summarize(_ISLANDS)
    assert (inspection.int8_weight_share, inspection.int8_mac_share) == (0.99, 0.99)
    assert inspection.weight_bytes == inspection.macs == 100


def test_a_weight_that_two_operators_share_counts_once() -> None:
    shared = Weight("w", 10, False)
    graph = Graph((_operator("a", "float", "x", "y", 1, shared), _operator("b", "float", "y", "z", 1, shared)))
    assert summarize(graph).weight_bytes == 10


def test_ninety_five_percent_of_both_is_the_limit() -> None:
    inspection = summarize(_ISLANDS)
    require_int8(_ISLANDS, replace(inspection, int8_mac_share=0.95, int8_weight_share=0.95))
    for change in ({"int8_mac_share": 0.949}, {"int8_weight_share": 0.949}):
        with pytest.raises(ConversionError, match="these operators stayed float: inner"):
            require_int8(_ISLANDS, replace(inspection, **change))  # type: ignore[arg-type]


def test_float_operators_come_by_their_work() -> None:
    assert [operator.name for operator in float_operators(_ISLANDS)] == ["inner", "inner2", "decoder"]


def test_a_graph_without_weights_has_shares_of_zero() -> None:
    inspection = summarize(Graph(()))
    assert (inspection.int8_weight_share, inspection.int8_mac_share) == (0, 0)
