from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge_runtime.errors import ContractError
from export.request import (
    ActivationScale,
    ConversionAnswer,
    ConvertedFile,
    Inspection,
    LearnedQuantization,
    Parity,
    WeightScale,
)
from export.wire import answer_from_json, answer_to_json, request_from_json, request_to_json
from tests.export.conftest import make_contract, make_request


def test_a_request_survives_the_way_to_the_child(tmp_path: Path) -> None:
    learned = LearnedQuantization((ActivationScale("relu", 0.1, 3),), (WeightScale("conv", (0.1, 1 / 3)),), 64)
    request = make_request(tmp_path, "tflite", precisions=("fp32", "int8"), input_dtype="uint8", learned=learned)
    assert request_from_json(request_to_json(request)) == request


def test_an_answer_survives_the_way_back() -> None:
    file = ConvertedFile(
        "int8",
        "model-int8.onnx",
        make_contract(),
        Parity(16, 0.1, 0.01, 40.0, 1.0),
        Inspection({"Conv": 2}, 100, 1000, 1.0, 0.99, 0, 1),
        "s8s8 per-channel",
    )
    answer = ConversionAnswer((file,), 1_000_000, 2.5, {"torch": "2"})
    assert answer_from_json(json.loads(answer_to_json(answer))) == answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "caffe"}, "format: expected one of onnx, tflite, got 'caffe'"),
        ({"precisions": ["int3"]}, "precisions: expected some of fp32, fp16, int8-dynamic, int8"),
        ({"precisions": []}, "precisions: expected some of"),
        ({"colour": "red"}, "not a conversion request: .*colour"),
    ],
)
def test_a_bad_request_is_refused_with_what_was_expected(tmp_path: Path, change: dict, message: str) -> None:  # type: ignore[type-arg]
    data = json.loads(request_to_json(make_request(tmp_path))) | change
    with pytest.raises(ValueError, match=message):
        request_from_json(json.dumps(data))


def test_a_bad_contract_in_a_request_is_refused_by_its_key(tmp_path: Path) -> None:
    data = json.loads(request_to_json(make_request(tmp_path)))
    data["contract"]["inputs"][0]["layout"] = "NWHC"
    with pytest.raises(ContractError, match=r"inputs\[0\]\.layout"):
        request_from_json(json.dumps(data))
