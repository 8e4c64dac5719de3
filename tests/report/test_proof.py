from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compress.errors import StageError
from compress.report.proof import MEASUREMENTS, SAMPLES, MeasuredProof, float_file, read_proof, write_proof
from tests.report.made_up import BASELINE, chain_proof, file_variant, make_proof


def test_a_proof_reads_back_as_it_was_written(chain: MeasuredProof, tmp_path: Path) -> None:
    write_proof(chain, tmp_path)
    again = read_proof(tmp_path)
    assert again.measurements == chain.measurements
    for key in chain.measurements.variants:
        np.testing.assert_array_equal(again.samples.predicted[key], chain.samples.predicted[key])
        np.testing.assert_array_equal(again.samples.latency_ms[key], chain.samples.latency_ms[key])


def test_the_same_proof_gives_the_same_bytes(chain: MeasuredProof, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_proof(chain, tmp_path / "a")
    write_proof(chain, tmp_path / "b")
    for name in (MEASUREMENTS, SAMPLES):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("damage", ["no samples", "cut samples", "wrong key", "no json"])
def test_a_damaged_proof_is_refused_with_its_folder(chain: MeasuredProof, tmp_path: Path, damage: str) -> None:
    write_proof(chain, tmp_path)
    samples, measurements = tmp_path / SAMPLES, tmp_path / MEASUREMENTS
    if damage == "no samples":
        samples.unlink()
    elif damage == "cut samples":
        samples.write_bytes(samples.read_bytes()[:100])
    elif damage == "wrong key":
        measurements.write_text(measurements.read_text().replace('"threads"', '"threds"', 1))
    else:
        measurements.write_text("{")
    with pytest.raises(StageError, match=str(tmp_path)):
        read_proof(tmp_path)


def test_quality_in_a_proof_follows_from_its_samples(chain: MeasuredProof) -> None:
    for key, measurement in chain.measurements.variants.items():
        assert measurement.quality["accuracy"] == pytest.approx(chain.samples.correct(key).mean())


def test_files_are_found_by_name_by_engine_and_by_key(tmp_path: Path) -> None:
    variant = file_variant(tmp_path, BASELINE, "onnx", "fp32", 100)
    files = {
        variant.name: (variant, "onnxruntime", 2.0, 0.0),
        f"{variant.name}@openvino": (variant, "openvino", 1.0, 0.0),
    }
    proof = make_proof(tmp_path, files, variant.name)
    assert proof.find(variant.name) == variant.name
    assert proof.find(variant.name, "openvino") == f"{variant.name}@openvino"
    assert proof.find(f"{variant.name}@openvino") == f"{variant.name}@openvino"
    assert proof.find(variant.name, "litert") is None
    assert proof.find("other/onnx-fp32") is None


def test_the_float_file_is_of_the_same_model_format_and_engine(tmp_path: Path) -> None:
    proof = chain_proof(tmp_path)
    assert float_file(proof, "student", "tflite", "litert") == "student/tflite-fp32"
    assert float_file(proof, "student", "onnx", "litert") is None
    assert float_file(proof, "student", "tflite", "onnxruntime") is None
