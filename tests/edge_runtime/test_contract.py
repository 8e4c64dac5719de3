from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime import contract as contracts
from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract
from edge_runtime.errors import ContractError
from tests.edge_runtime.model_files import contract as tiny

CONTRACT = tiny("x", "y")


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """The JSON of a good contract with one value changed."""
    data = json.loads(json.dumps(contracts.to_json(CONTRACT)))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return data


def test_a_contract_survives_the_trip_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.contract.json"
    contracts.save(CONTRACT, path)
    assert contracts.load(path) == CONTRACT
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_equal_contracts_give_equal_bytes(tmp_path: Path) -> None:
    contracts.save(CONTRACT, tmp_path / "a")
    contracts.save(contracts.from_json(contracts.to_json(CONTRACT)), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_contract_lies_beside_the_model_under_its_name() -> None:
    assert contracts.contract_path("runs/a/model.int8.tflite") == Path("runs/a/model.int8.contract.json")


@given(
    labels=st.lists(st.text(max_size=5), max_size=4),
    size=st.tuples(st.integers(1, 64), st.integers(1, 64)),
    order=st.sampled_from(["RGB", "BGR", "GRAY"]),
    layout=st.sampled_from(["NHWC", "NCHW"]),
    mean=st.floats(-1e6, 1e6),
    std=st.floats(1e-3, 1e6),
)
def test_any_contract_survives_json(labels: Any, size: Any, order: Any, layout: Any, mean: float, std: float) -> None:
    channels = 1 if order == "GRAY" else 3
    spec = ImagePreprocess(*size, order, "letterbox", (mean,) * channels, (std,) * channels)
    shape = (1, *size, channels) if layout == "NHWC" else (1, channels, *size)
    made = Contract(
        task="image-classification",
        inputs=(InputContract("x", shape, "uint8", layout, spec), InputContract("ids", (1, 8), "int64", "ND")),
        outputs=(OutputContract("y", (1, len(labels) + 1), "float32", "logits"),),
        labels=tuple(labels),
    )
    assert contracts.from_json(json.loads(json.dumps(contracts.to_json(made)))) == made


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("lables", to=[]), "lables: unknown key; did you mean 'labels'?"),
        (changed("inputs", 0, "shap", to=[1]), "inputs[0].shap: unknown key; did you mean 'shape'?"),
        (changed("inputs", 0, "shape", to=3), "inputs[0].shape: expected a list, got 3"),
        (changed("inputs", 0, "shape", 1, to="4"), "inputs[0].shape[1]: expected a whole number, got '4'"),
        (changed("inputs", 0, "shape", 1, to=True), "inputs[0].shape[1]: expected a whole number, got True"),
        (
            changed("inputs", 0, "dtype", to="flaot32"),
            "inputs[0].dtype: unknown value 'flaot32'; did you mean 'float32'?",
        ),
        (changed("inputs", 0, "layout", to=7), "inputs[0].layout: unknown value 7; expected one of NHWC, NCHW, ND"),
        (changed("inputs", 0, "preprocess", to="RGB"), "inputs[0].preprocess: expected an object, got 'RGB'"),
        (
            changed("inputs", 0, "preprocess", "mean", 0, to=float("nan")),
            "inputs[0].preprocess.mean[0]: expected a finite number, got nan",
        ),
        (
            changed("outputs", 0, "decoder", to="boxes"),
            "outputs[0].decoder: unknown value 'boxes'; expected one of logits",
        ),
        (changed("labels", 1, to=None), "labels[1]: expected a string, got None"),
        (changed("version", to=2), "version: this runtime reads contract version 1, got 2"),
        (changed("version", to="1"), "version: this runtime reads contract version 1, got '1'"),
        ([], "document: expected an object, got []"),
        ({"task": "x"}, "inputs: required key is missing"),
    ],
)
def test_a_malformed_contract_is_refused_and_the_key_is_named(data: Any, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        contracts.from_json(data)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("inputs", to=[]), "at least one input"),
        (changed("outputs", to=[]), "at least one input and one output"),
        (changed("inputs", 0, "shape", 0, to=0), r"inputs\[0\].shape: sizes must be at least 1"),
        (changed("inputs", 0, "layout", to="NCHW"), r"in NCHW is \(batch, 3, 4, 4\), got \[1, 4, 4, 3\]"),
        (changed("inputs", 0, "preprocess", "height", to=5), r"inputs\[0\].shape: an image of height 5"),
        (changed("inputs", 0, "preprocess", "color_order", to="GRAY"), "mean: GRAY needs 1 values, got 3"),
        (changed("inputs", 0, "preprocess", "std", 0, to=0), "std: values must be above 0"),
        (changed("inputs", 0, "preprocess", "divide_by", to=0), "divide_by: must be above 0"),
        (changed("inputs", to=[contracts.to_json(CONTRACT)["inputs"][0]] * 2), "'x' is given twice"),
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        contracts.from_json(data)


def test_a_contradiction_is_not_written_either(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="at least one input"):
        contracts.save(replace(CONTRACT, inputs=()), tmp_path / "c.json")
    assert list(tmp_path.iterdir()) == []


def test_messages_about_a_file_name_it(tmp_path: Path) -> None:
    path = tmp_path / "m.contract.json"
    with pytest.raises(ContractError, match=f"no contract at {path}"):
        contracts.load(path)
    path.write_text('{"task": ')
    with pytest.raises(ContractError, match=f"{path} is not a contract"):
        contracts.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ContractError, match=f"{path} is not a contract"):
        contracts.load(path)
    path.write_text(json.dumps(changed("lables", to=[])))
    with pytest.raises(ContractError, match=f"{path}: lables: unknown key"):
        contracts.load(path)
