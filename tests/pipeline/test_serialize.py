"""Variants as JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compress.errors import StageError
from compress.models.variant import FileVariant, Proof, TorchVariant
from compress.pipeline.serialize import from_json, identity, to_json
from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract
from export.request import Inspection, Parity

CONTRACT = Contract(
    task="image-classification",
    inputs=(
        InputContract(
            "image", (1, 8, 8, 3), "uint8", "NHWC", ImagePreprocess(8, 8, "RGB", "letterbox", (0.1,) * 3, (0.2,) * 3)
        ),
    ),
    outputs=(OutputContract("logits", (1, 2), "float32", "logits"),),
    labels=("cat", "dog"),
)


@pytest.fixture
def torch(tmp_path: Path) -> TorchVariant:
    (tmp_path / "model").mkdir()
    return TorchVariant(
        "student", "d" * 64, tmp_path / "model", CONTRACT, 10, 20, ("baseline",), {"accuracy": 1 / 3}, {"epochs": [1]}
    )


@pytest.fixture
def file(tmp_path: Path, torch: TorchVariant) -> FileVariant:
    (tmp_path / "model.tflite").write_bytes(b"x")
    return FileVariant(
        "student/tflite-int8",
        "e" * 64,
        tmp_path / "model.tflite",
        "tflite",
        "int8",
        CONTRACT,
        10,
        20,
        ("baseline", "student"),
        torch,
        Parity(2, 0.1, 0.2, float("inf"), 1.0),
        Inspection({"CONV_2D": 2}, 10, 20, 1.0, 0.97, 1, 0),
        "s8s8 per-channel",
        {"calibration": {"count": 64}},
    )


def through_text(record: dict[str, object]) -> dict[str, object]:
    return json.loads(json.dumps(record))


def test_a_torch_variant_survives(tmp_path: Path, torch: TorchVariant) -> None:
    assert from_json(through_text(to_json(torch, tmp_path)), tmp_path, ()) == torch


def test_a_file_variant_survives_and_finds_its_parent_again(
    tmp_path: Path, torch: TorchVariant, file: FileVariant
) -> None:
    assert from_json(through_text(to_json(file, tmp_path)), tmp_path, (torch,)) == file


def test_the_parent_of_a_file_is_found_through_another_file(
    tmp_path: Path, torch: TorchVariant, file: FileVariant
) -> None:
    assert from_json(to_json(file, tmp_path), tmp_path, (file,)) == file


def test_a_proof_survives(tmp_path: Path) -> None:
    proof = Proof("proof", "f" * 64, tmp_path, ("student/tflite-int8",))
    assert from_json(through_text(to_json(proof, tmp_path)), tmp_path, ()) == proof


def test_paths_move_with_the_folder(tmp_path: Path, torch: TorchVariant) -> None:
    record = to_json(torch, tmp_path)
    assert record["directory"] == "model"
    moved = from_json(record, Path("/elsewhere"), ())
    assert isinstance(moved, TorchVariant)
    assert moved.directory == Path("/elsewhere/model")


def test_a_file_whose_parent_is_unknown_is_refused(tmp_path: Path, torch: TorchVariant, file: FileVariant) -> None:
    record = to_json(file, tmp_path)
    with pytest.raises(ValueError, match="parent 'student' is not among"):
        from_json(record, tmp_path, (replace(torch, digest="0" * 64),))


def test_a_variant_outside_of_the_output_folder_is_refused(tmp_path: Path, torch: TorchVariant) -> None:
    with pytest.raises(StageError, match="outside of its stage's output folder"):
        to_json(torch, tmp_path / "other")


def test_a_variant_without_files_is_refused(tmp_path: Path, torch: TorchVariant) -> None:
    torch.directory.rmdir()
    with pytest.raises(StageError, match="nothing is there"):
        to_json(torch, tmp_path)


def test_notes_that_are_no_json_are_refused_with_the_name_of_the_variant(tmp_path: Path, torch: TorchVariant) -> None:
    with pytest.raises(StageError, match="'student' cannot be written as JSON"):
        to_json(replace(torch, notes={"model": object()}), tmp_path)


def test_what_a_variant_is_does_not_depend_on_where_it_lies_and_what_was_noted(torch: TorchVariant) -> None:
    assert identity(torch) == identity(replace(torch, directory=Path("/elsewhere"), notes={"seconds": 3}))


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"name": "other"},
        {"lineage": ()},
        {"validation": {"accuracy": 0.4}},
        {"contract": replace(CONTRACT, labels=("dog", "cat"))},
    ],
)
def test_what_a_variant_is_depends_on_content_name_origin_score_and_interface(
    torch: TorchVariant, file: FileVariant, change: dict[str, object]
) -> None:
    changed = replace(torch, **change)  # type: ignore[arg-type]
    assert identity(torch) != identity(changed)
    assert identity(file) != identity(replace(file, parent=changed))
