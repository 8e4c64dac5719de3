from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compress.errors import EnvironmentProblem, StageError
from compress.models.variant import FileVariant, Proof
from compress.report.proof import MeasuredProof, read_proof
from compress.stages.benchmark import STAGE, BenchmarkSettings, baseline_key, files_to_measure, plan
from edge_runtime.errors import EngineMissingError
from export.targets import TARGETS
from tests.measurement.fake_data import LABELS, FakeData
from tests.stages.hand_made import Progress, context, file_variant, quadrant_weights, torch_variant

pytest.importorskip("onnxruntime", reason="the files are run by ONNX Runtime")

DEFAULTS = TARGETS["x86-avx2"].engines
QUICK: dict[str, Any] = {"seconds": 0.3, "memory": False}


class _Linear(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.flatten(1) @ torch.from_numpy(quadrant_weights()).T


@pytest.fixture(autouse=True)
def saved_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The torch models behind the hand-made files: all answer right, whatever their files do."""
    monkeypatch.setattr("compress.models.saved.load_model", lambda directory, verify=None: _Linear().eval())


def files(tmp_path: Path) -> list[FileVariant]:
    """A slow baseline that is right, a fast file that confuses two classes, and a third, equal to the baseline."""
    baseline, student = torch_variant("baseline", tmp_path), torch_variant("student", tmp_path)
    return [
        file_variant(tmp_path, baseline, work=60),
        file_variant(tmp_path, baseline, "int8", confused=((0, 1),)),
        file_variant(tmp_path, student),
    ]


def run(tmp_path: Path, parents: list[FileVariant], settings: BenchmarkSettings, **changes: Any) -> MeasuredProof:
    data = changes.pop("data", FakeData({"test": 60}))
    (proof,) = STAGE.run(parents, settings, context(tmp_path, ("proof",), data, **changes))
    assert isinstance(proof, Proof)
    return read_proof(proof.directory)


def test_quality_is_what_the_file_answers_and_the_torch_row_stands_beside_it(tmp_path: Path) -> None:
    proof = run(tmp_path, files(tmp_path), BenchmarkSettings(**QUICK))
    wrong = proof["baseline/onnx-int8"]
    assert wrong.quality == {"accuracy": 0.5}
    assert wrong.per_class["accuracy"] == {"a": 0.0, "b": 0.0, "c": 1.0, "d": 1.0}
    assert wrong.waterfall.torch == 1.0
    assert wrong.waterfall.float_file == 1.0
    assert wrong.waterfall.file == 0.5
    assert proof.measurements.torch == {"baseline": {"accuracy": 1.0}, "student": {"accuracy": 1.0}}


def test_only_the_test_split_is_read_and_all_of_it(tmp_path: Path) -> None:
    data = FakeData({"test": 70, "validation": 9})
    proof = run(tmp_path, files(tmp_path)[:1], BenchmarkSettings(**QUICK), data=data)
    assert data.read == {"test"}
    assert proof["baseline/onnx-fp32"].samples == 70
    np.testing.assert_array_equal(proof.samples.targets, data.targets("test"))


def test_every_file_is_timed_against_the_named_baseline_in_one_run(tmp_path: Path) -> None:
    proof = run(tmp_path, files(tmp_path), BenchmarkSettings(baseline="baseline/onnx-fp32", seconds=1.0, memory=False))
    student = proof["student/onnx-fp32"]
    assert student.relative is not None
    assert student.relative.of == "baseline/onnx-fp32"
    assert student.relative.latency_change == "better"
    assert student.relative.latency_interval is not None
    assert student.relative.latency_interval[1] < 0
    assert len({samples.shape for samples in proof.samples.latency_ms.values()}) == 1
    assert proof["baseline/onnx-fp32"].relative is None


def test_other_engines_are_told_apart_by_their_name(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="the second engine for ONNX files")
    settings = BenchmarkSettings.model_validate({"engines": ["onnxruntime", "openvino"], **QUICK})
    proof = run(tmp_path, files(tmp_path)[:1], settings)
    assert set(proof.measurements.variants) == {"baseline/onnx-fp32", "baseline/onnx-fp32@openvino"}
    own, other = proof["baseline/onnx-fp32"], proof["baseline/onnx-fp32@openvino"]
    assert (own.engine, own.default_engine) == ("onnxruntime", True)
    assert (other.engine, other.default_engine) == ("openvino", False)
    assert other.engine_version
    assert own.quality == other.quality


def test_peak_memory_is_of_a_fresh_process(tmp_path: Path) -> None:
    """This process holds torch, and half a GiB more; the one that is measured holds neither."""
    ballast = np.ones(2**26)
    proof = run(tmp_path, files(tmp_path)[2:], BenchmarkSettings(seconds=0.2))
    peak = proof["student/onnx-fp32"].peak_memory_bytes
    assert peak is not None
    assert 10_000_000 < peak < ballast.nbytes


def test_the_time_is_bounded(tmp_path: Path) -> None:
    start = time.monotonic()
    run(tmp_path, files(tmp_path), BenchmarkSettings(seconds=0.2, width=0.000001, memory=False))
    assert time.monotonic() - start < 20


def test_an_early_end_is_recorded(tmp_path: Path) -> None:
    proof = run(tmp_path, files(tmp_path), BenchmarkSettings(seconds=0.05, width=0.000001, memory=False))
    latency = proof["student/onnx-fp32"].latency_ms
    assert latency is not None
    assert not latency.converged


def test_the_proof_is_written_with_its_samples_and_digest(tmp_path: Path) -> None:
    (proof,) = STAGE.run(
        files(tmp_path), BenchmarkSettings(**QUICK), context(tmp_path, ("proof",), FakeData({"test": 20}))
    )
    assert isinstance(proof, Proof)
    assert proof.name == "proof"
    assert proof.lineage == ("baseline/onnx-fp32", "baseline/onnx-int8", "student/onnx-fp32")
    assert len(proof.digest) == 64
    document = json.loads((proof.directory / "measurements.json").read_text())
    assert document["schema"] == 1
    assert document["labels"] == list(LABELS)
    assert (proof.directory / "samples.npz").exists()


def test_progress_goes_forward_to_the_end(tmp_path: Path) -> None:
    progress = Progress()
    run(tmp_path, files(tmp_path)[:1], BenchmarkSettings(seconds=0.1), progress=progress)
    assert progress.fractions == sorted(progress.fractions)
    assert progress.fractions[-1] >= 0.9


# Decisions, before anything runs.


def test_without_a_name_the_first_fp32_file_is_the_baseline(tmp_path: Path) -> None:
    _, int8, student = files(tmp_path)
    planned = plan([int8, student], BenchmarkSettings(), DEFAULTS)
    assert baseline_key(planned, None) == student.name
    assert baseline_key(planned[:1], None) == int8.name


def test_the_baseline_may_come_from_outside_the_parents(tmp_path: Path) -> None:
    baseline, int8, _ = files(tmp_path)
    settings = BenchmarkSettings(baseline=baseline.name)
    assert STAGE.references(settings) == (baseline.name,)
    assert files_to_measure([int8], settings, {baseline.name: baseline}) == [int8, baseline]
    assert files_to_measure([baseline, int8], settings, {baseline.name: baseline}) == [baseline, int8]


def test_a_baseline_that_is_not_there_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    baseline, int8, _ = files(tmp_path)
    with pytest.raises(StageError, match="did you mean 'baseline/onnx-fp32'"):
        files_to_measure([baseline, int8], BenchmarkSettings(baseline="baseline/onnx-fp23"), {})


def test_torch_models_are_not_measured_as_files(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="student"):
        files_to_measure([torch_variant("student", tmp_path)], BenchmarkSettings(), {})


def test_each_file_runs_on_the_engines_that_can(tmp_path: Path) -> None:
    onnx, *_ = files(tmp_path)
    tflite = dataclasses.replace(onnx, name="baseline/tflite-fp32", path=Path("model.tflite"), format="tflite")
    settings = BenchmarkSettings.model_validate({"engines": ["litert", "openvino", "onnxruntime"]})
    assert [(entry.key, entry.engine) for entry in plan([onnx, tflite], settings, DEFAULTS)] == [
        ("baseline/onnx-fp32@openvino", "openvino"),
        ("baseline/onnx-fp32", "onnxruntime"),
        ("baseline/tflite-fp32", "litert"),
    ]
    assert [entry.engine for entry in plan([onnx, tflite], BenchmarkSettings(), DEFAULTS)] == ["onnxruntime", "litert"]


def test_an_unknown_engine_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="onnxruntime"):
        plan(files(tmp_path), BenchmarkSettings.model_validate({"engines": ["onnxruntme"]}), DEFAULTS)


def test_a_file_that_no_engine_runs_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"baseline/onnx-fp32.*litert"):
        plan(files(tmp_path), BenchmarkSettings.model_validate({"engines": "litert"}), DEFAULTS)


# Bad input.


def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path) -> None:
    baseline, *_ = files(tmp_path)
    baseline.path.write_bytes(baseline.path.read_bytes()[:200])
    with pytest.raises(StageError, match="baseline/onnx-fp32"):
        run(tmp_path, [baseline], BenchmarkSettings(**QUICK))


def test_a_missing_engine_is_a_matter_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise EngineMissingError("engine 'onnxruntime' needs the package onnxruntime: pip install edgepress[onnx]")

    monkeypatch.setattr("edge_runtime.session.open_session", missing)
    with pytest.raises(EnvironmentProblem, match="pip install"):
        run(tmp_path, files(tmp_path), BenchmarkSettings(**QUICK))


def test_an_empty_test_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="test split"):
        run(tmp_path, files(tmp_path), BenchmarkSettings(**QUICK), data=FakeData({"test": 0}))


def test_answers_that_are_no_numbers_count_as_wrong_and_are_reported(tmp_path: Path) -> None:
    from tests.stages.hand_made import write_onnx

    baseline, _, student = files(tmp_path)
    weights = quadrant_weights()
    weights[0] = np.nan
    write_onnx(student.path, weights)
    proof = run(tmp_path, [baseline, student], BenchmarkSettings(**QUICK))
    assert proof["student/onnx-fp32"].quality["accuracy"] == 0.0
    assert proof["student/onnx-fp32"].notes["samples_without_finite_scores"] == 60


def test_settings_refuse_unknown_keys_and_nonsense() -> None:
    for wrong in ({"thread": 1}, {"threads": 0}, {"seconds": 0}, {"width": 0}, {"width": "200%"}):
        with pytest.raises(ValueError, match="validation error"):
            BenchmarkSettings.model_validate(wrong)
