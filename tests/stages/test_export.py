from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from compress.errors import EnvironmentProblem, StageError
from compress.models.architecture import Architecture, BuilderReference
from compress.models.saved import save_model
from compress.models.variant import FileVariant
from compress.stages.export import STAGE, ExportSettings
from export.errors import ConversionError
from export.request import (
    ActivationScale,
    ConversionAnswer,
    ConversionRequest,
    ConvertedFile,
    Inspection,
    LearnedQuantization,
    Parity,
    WeightScale,
)
from tests.measurement.fake_data import LABELS, FakeData
from tests.stages.hand_made import context, file_variant, torch_variant

FOUR = ("m/onnx-fp32", "m/onnx-int8", "m/tflite-fp32", "m/tflite-int8")


def settings(**changes: Any) -> ExportSettings:
    return ExportSettings.model_validate({"format": ["onnx", "tflite"], "precision": ["fp32", "int8"], **changes})


def converted(request: ConversionRequest, precision: Any, **changes: Any) -> ConvertedFile:
    path = Path(request.output_directory) / f"model-{precision}.{request.format}"
    path.write_bytes(f"{request.format} {precision}".encode())
    share = 1.0 if precision.startswith("int8") else 0.0
    values: dict[str, Any] = {
        "precision": precision,
        "path": str(path),
        "contract": request.contract,
        "parity": Parity(8, 1e-6, 1e-7, 60.0, 1.0),
        "inspection": Inspection({"CONV": 1}, 100, 1000, share, share, 0, 0),
        "scheme": "s8s8 per-channel" if share else "float",
    }
    return ConvertedFile(**(values | changes))


class Converter:
    """Stands in for the child processes: keeps the requests, and gives files that pass or that `change` spoils."""

    def __init__(self, change: Callable[[str], dict[str, Any]] = lambda precision: {}) -> None:
        self.requests: list[ConversionRequest] = []
        self.timeouts: list[float | None] = []
        self.change = change

    def __call__(self, request: ConversionRequest, timeout: float | None = None) -> ConversionAnswer:
        self.requests.append(request)
        self.timeouts.append(timeout)
        files = tuple(converted(request, precision, **self.change(precision)) for precision in request.precisions)
        return ConversionAnswer(files, 1_000_000, 2.5, {"torch": "2"})


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> Converter:
    stand_in = Converter()
    monkeypatch.setattr("compress.stages.export.convert", stand_in)
    return stand_in


def run(tmp_path: Path, chosen: ExportSettings, names: tuple[str, ...] = FOUR, **changes: Any) -> list[FileVariant]:
    quantization = changes.pop("quantization", None)
    data = changes.pop("data", FakeData({"calibration": 80, "validation": 40, "test": 40}))
    save_model(nn.Linear(1, 1), Architecture(BuilderReference("made", {}), quantization=quantization), tmp_path / "m")
    results = STAGE.run([torch_variant("m", tmp_path / "m")], chosen, context(tmp_path, names, data, **changes))
    files = [variant for variant in results if isinstance(variant, FileVariant)]
    assert len(files) == len(results)
    return files


def test_names_are_known_before_anything_runs() -> None:
    assert STAGE.result_names("files", ["m"], settings()) == FOUR
    assert STAGE.result_names("files", ["m"], ExportSettings.model_validate({"format": "tflite"})) == ("m/tflite-fp32",)


def test_every_format_in_every_precision_under_the_promised_names(tmp_path: Path, converter: Converter) -> None:
    files = run(tmp_path, settings())
    assert [file.name for file in files] == list(FOUR)
    assert [(file.format, file.precision) for file in files] == [
        ("onnx", "fp32"),
        ("onnx", "int8"),
        ("tflite", "fp32"),
        ("tflite", "int8"),
    ]
    for file in files:
        assert file.digest == hashlib.sha256(file.path.read_bytes()).hexdigest()
        assert file.parent.name == "m"
        assert file.lineage == ("m",)
        assert (tmp_path / "output") in file.path.parents


def test_names_given_by_the_recipe_are_kept(tmp_path: Path, converter: Converter) -> None:
    names = ("a", "b", "c", "d")
    assert [file.name for file in run(tmp_path, settings(), names)] == list(names)


def test_one_process_for_each_format_derives_all_precisions(tmp_path: Path, converter: Converter) -> None:
    run(tmp_path, settings(timeout="5min"))
    assert sorted(request.format for request in converter.requests) == ["onnx", "tflite"]
    assert all(request.precisions == ("fp32", "int8") for request in converter.requests)
    assert converter.timeouts == [300.0, 300.0]


def test_the_two_formats_are_converted_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    together = threading.Barrier(2, timeout=10)
    stand_in = Converter()

    def convert(request: ConversionRequest, timeout: float | None = None) -> ConversionAnswer:
        together.wait()
        return stand_in(request, timeout)

    monkeypatch.setattr("compress.stages.export.convert", convert)
    assert len(run(tmp_path, settings())) == 4


def test_the_child_gets_the_saved_model_by_name_and_checks_its_digest(tmp_path: Path, converter: Converter) -> None:
    run(tmp_path, settings())
    source = converter.requests[0].source
    assert source.factory == "compress.models.saved:load_model"
    assert source.arguments == {"directory": str(tmp_path / "m"), "verify": "digest-m"}


def test_tflite_takes_channels_last_and_onnx_channels_first_by_default(tmp_path: Path, converter: Converter) -> None:
    run(tmp_path, settings())
    layouts = {request.format: request.contract.inputs[0] for request in converter.requests}
    assert (layouts["tflite"].layout, layouts["tflite"].shape) == ("NHWC", (1, 4, 4, 3))
    assert (layouts["onnx"].layout, layouts["onnx"].shape) == ("NCHW", (1, 3, 4, 4))


def test_layout_and_dtypes_are_keys(tmp_path: Path, converter: Converter) -> None:
    run(tmp_path, settings(layout="NHWC", input_dtype="uint8", output_dtype="int8"))
    for request in converter.requests:
        assert request.contract.inputs[0].layout == "NHWC"
        assert (request.input_dtype, request.output_dtype) == ("uint8", "int8")


def test_calibration_comes_from_its_split_and_test_is_never_read(tmp_path: Path, converter: Converter) -> None:
    data = FakeData({"calibration": 80, "validation": 40, "test": 40})
    files = run(tmp_path, settings(calibration=20, parity=10), data=data)
    assert data.read == {"calibration", "validation"}
    request = converter.requests[0]
    assert request.calibration is not None
    assert np.load(request.calibration).shape == (20, 3, 4, 4)
    assert np.load(request.parity).shape == (10, 3, 4, 4)
    card = files[1].notes["calibration"]
    assert card["count"] == 20
    assert set(card["per_class"]) == set(LABELS)
    assert min(card["per_class"].values()) > 0
    assert "calibration" not in files[0].notes


def test_without_int8_nothing_is_calibrated(tmp_path: Path, converter: Converter) -> None:
    data = FakeData({"calibration": 80, "validation": 40})
    chosen = ExportSettings.model_validate({"format": "onnx", "precision": ["fp32", "fp16", "int8-dynamic"]})
    run(tmp_path, chosen, ("a", "b", "c"), data=data)
    assert data.read == {"validation"}
    assert converter.requests[0].calibration is None


def test_a_failed_conversion_fails_the_stage_with_the_converters_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(request: ConversionRequest, timeout: float | None = None) -> ConversionAnswer:
        raise ConversionError("aten.special_i0 (net.Net/head) has no counterpart in TFLite", "unsupported-operator")

    monkeypatch.setattr("compress.stages.export.convert", convert)
    with pytest.raises(StageError, match=r"aten\.special_i0 \(net\.Net/head\)"):
        run(tmp_path, settings())


def test_a_full_disk_is_a_matter_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(request: ConversionRequest, timeout: float | None = None) -> ConversionAnswer:
        raise ConversionError("no space to write files", "disk-full")

    monkeypatch.setattr("compress.stages.export.convert", convert)
    with pytest.raises(EnvironmentProblem, match="no space"):
        run(tmp_path, settings())


def test_a_converter_that_gives_too_little_fails_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(request: ConversionRequest, timeout: float | None = None) -> ConversionAnswer:
        return ConversionAnswer((converted(request, "fp32"),), 1, 1.0)

    monkeypatch.setattr("compress.stages.export.convert", convert)
    with pytest.raises(StageError, match="m/onnx-int8: the converter gave no int8 file"):
        run(tmp_path, settings())


def test_a_file_is_no_parent_of_an_export(tmp_path: Path, converter: Converter) -> None:
    parent = file_variant(tmp_path, torch_variant("m", tmp_path))
    with pytest.raises(StageError, match="m/onnx-fp32"):
        STAGE.run([parent], settings(), context(tmp_path, FOUR, FakeData({})))


def test_settings_refuse_unknown_formats_and_keys() -> None:
    for wrong in ({"format": "savedmodel"}, {"precision": "int4"}, {"calibrate": 5}, {"calibration": 0}):
        with pytest.raises(ValueError, match="validation error"):
            settings(**wrong)


def test_scales_that_were_learned_with_the_weights_go_to_both_converters(tmp_path: Path, converter: Converter) -> None:
    learned = LearnedQuantization((ActivationScale("relu", 0.5, 3),), (WeightScale("conv", (0.1, 0.2)),), 64)
    run(tmp_path, settings(), quantization=learned)
    assert [request.learned for request in converter.requests] == [learned, learned]


def test_how_ranges_are_found_and_channels_evened_out_goes_to_both_converters(
    tmp_path: Path, converter: Converter
) -> None:
    run(tmp_path, settings(ranges="percentile", percentile="99.9%", equalize=True))
    for request in converter.requests:
        assert (request.ranges, request.percentile, request.equalize) == ("percentile", 0.999, True)
