from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from compress.errors import StageError
from compress.measurement.quality import in_layout, judge, predict
from compress.measurement.samples import in_layout as contract_in_layout
from edge_runtime.session import Session, open_session
from tests.measurement.fake_data import CONTRACT, LABELS, FakeData
from tests.stages.hand_made import file_variant, torch_variant

pytest.importorskip("onnxruntime", reason="the files are run by ONNX Runtime")


def sessions(tmp_path: Path) -> dict[str, Session]:
    right = file_variant(tmp_path, torch_variant("right", tmp_path))
    wrong = file_variant(tmp_path, torch_variant("wrong", tmp_path), confused=((2, 3),))
    return {variant.name: open_session(variant.path) for variant in (right, wrong)}


def test_every_file_answers_the_same_samples_in_the_order_of_the_split(tmp_path: Path) -> None:
    data = FakeData({"test": 150})
    answers = predict(sessions(tmp_path), {}, data, lambda share: None)
    np.testing.assert_array_equal(answers.targets, data.targets("test"))
    np.testing.assert_array_equal(answers.files["right/onnx-fp32"], answers.targets)
    swapped = np.array([0, 1, 3, 2])[answers.targets]
    np.testing.assert_array_equal(answers.files["wrong/onnx-fp32"], swapped)


def test_running_two_files_at_once_changes_no_answer(tmp_path: Path) -> None:
    opened, data = sessions(tmp_path), FakeData({"test": 150})
    one, two = (predict(opened, {}, data, lambda share: None, workers=workers) for workers in (1, 2))
    for key in opened:
        np.testing.assert_array_equal(one.files[key], two.files[key])


def test_torch_models_answer_in_inference_mode(tmp_path: Path) -> None:
    seen = []

    class Watched(torch.nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append(torch.is_inference_mode_enabled())
            return torch.nn.functional.one_hot(torch.full((len(inputs),), 2), 4).float()

    answers = predict({}, {"m": Watched()}, FakeData({"test": 10}), lambda share: None)
    np.testing.assert_array_equal(answers.torch["m"], np.full(10, 2))
    assert seen == [True]


def test_progress_ends_at_one(tmp_path: Path) -> None:
    shares: list[float] = []
    predict(sessions(tmp_path), {}, FakeData({"test": 130}), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_samples_of_another_shape_are_refused_with_the_files_name(tmp_path: Path) -> None:
    data = FakeData({"test": 4}, change=lambda inputs: inputs[:, :1])
    with pytest.raises(StageError, match="right/onnx-fp32"):
        predict(sessions(tmp_path), {}, data, lambda share: None, workers=1)


def test_channels_move_last_for_a_file_that_wants_them_there() -> None:
    inputs = FakeData({"test": 2}).inputs("test")
    moved = in_layout(inputs, contract_in_layout(CONTRACT, "NHWC").inputs[0])
    assert moved.shape == (2, 4, 4, 3)
    assert moved.flags.c_contiguous
    np.testing.assert_array_equal(moved[..., 1], inputs[:, 1])


def test_samples_are_laid_out_once_and_not_again_in_every_run() -> None:
    """Data arrives channels last in memory; an engine that copied it each time would be timed with the copy."""
    inputs = FakeData({"test": 2}).inputs("test")
    strided = np.ascontiguousarray(inputs.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    arranged = in_layout(strided, CONTRACT.inputs[0])
    assert arranged.flags.c_contiguous
    np.testing.assert_array_equal(arranged, inputs)


def test_a_class_without_samples_has_no_accuracy_rather_than_zero() -> None:
    quality = judge(np.array([0, 0, 1]), np.array([0, 1, 1]), LABELS, seed=0)
    assert quality.value == pytest.approx(2 / 3)
    assert quality.per_class == {"a": 1.0, "b": 0.5}
    assert quality.interval[0] <= quality.value <= quality.interval[1]
