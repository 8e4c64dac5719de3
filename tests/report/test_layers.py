"""The debugger's findings in words: worst first, nothing hidden, nothing unescaped."""

from __future__ import annotations

import re

from compress.report.layers import render_page, render_text
from export.debug import Diagnosis, Layer

LAYERS = tuple(
    Layer(f"layer<{index}>", "Conv", 10.0 * index, 40.0, 0.9, -1.0, 2.0, (-1.5, 1.5), 0.125) for index in range(1, 5)
)
FOUND = Diagnosis(16, LAYERS, ("Gemm a", "Softmax b"), (("Softmax b",),), 7, "an engine")


def test_the_worst_tensors_are_printed_and_the_rest_counted() -> None:
    lines = render_text("net/onnx-int8", FOUND, top=2).splitlines()
    assert lines[0] == (
        "net/onnx-int8: 4 activations compared with the float file on 16 validation samples, worst first, "
        "run by an engine"
    )
    assert " ".join(lines[3].split()) == "layer<1> Conv 10.0 dB 40.0 dB 0.90000 -1 to 2 -1.5 to 1.5 12.50 %"
    assert lines[5] == "and 2 tensors that are closer"
    assert lines[-3:] == [
        "7 operators convert between float and INT8.",
        "Computed on floats: Gemm a, Softmax b.",
        "A float region between INT8 ones: Softmax b.",
    ]


def test_the_page_has_every_tensor_one_chart_and_loads_nothing() -> None:
    page = render_page("net/onnx-int8", FOUND)
    assert page.count("<svg") == 1
    assert page.count("<tr>") == 5
    assert "layer<1>" not in page
    assert "layer&lt;1&gt;" in page
    assert not re.search(r"(src|href)=|<script|http", page)
