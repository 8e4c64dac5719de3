"""One suite for all engines: what runs a file must not change what the file means."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import edge_runtime.engines as engines
from edge_runtime.engines import EngineSpec, default_engine, engine_spec, engine_specs, engine_version, open_engine
from edge_runtime.engines.signal_stack import signal_stack
from edge_runtime.errors import (
    ContractError,
    EngineError,
    EngineMissingError,
    ModelFileError,
    ModelFileMissingError,
    UnknownEngineError,
)
from tests.edge_runtime.model_files import SHAPE, Quantized, expected, write_onnx, write_tflite

Write = Callable[..., Path]
IMAGE = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)


def test_a_float_model_gives_the_answer_of_the_formula(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(), engine_name)
    (answer,) = engine.run([IMAGE])
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, expected(IMAGE), rtol=1e-5, atol=1e-5)


def test_the_engine_names_itself_its_version_and_what_computes(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(), engine_name)
    assert engine.name == engine_name
    assert engine.version == engine_version(engine_name)
    assert engine.version[0].isdigit()
    assert engine.delegate == {"litert": "xnnpack"}.get(engine_name, "cpu")
    assert engine.threads == 1


def test_shapes_dtypes_scales_and_zero_points_are_read_from_the_file(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(quantized=Quantized()), engine_name)
    (given,), (got,) = engine.inputs, engine.outputs
    assert (given.shape, given.dtype, given.zero_point) == (SHAPE, "int8", 3)
    assert given.scale == pytest.approx(1 / 64, rel=1e-6)
    assert (got.shape, got.dtype, got.zero_point) == ((1, 3), "int8", -5)
    assert got.scale == pytest.approx(0.125, rel=1e-6)


def test_a_float_model_declares_no_scale(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(), engine_name)
    assert all(tensor.scale is None and tensor.zero_point is None for tensor in (*engine.inputs, *engine.outputs))


@pytest.mark.skipif(sys.platform != "linux", reason="reads stack_t of Linux")
def test_an_engine_leaves_the_signal_stack_of_the_process_alone(engine_name: str, write_model: Write) -> None:
    before = signal_stack()
    engine = open_engine(write_model(), engine_name)
    assert signal_stack() == before
    engine.run([IMAGE])
    del engine
    assert signal_stack() == before


def test_an_answer_belongs_to_the_caller(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(), engine_name)
    (first,) = engine.run([IMAGE])
    kept = first.copy()
    engine.run([-IMAGE])
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(engine.run([IMAGE])[0], kept)


def test_the_input_is_not_changed_and_may_change_after_the_run(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(), engine_name)
    mine = IMAGE.copy()
    (answer,) = engine.run([mine])
    np.testing.assert_array_equal(mine, IMAGE)
    mine[:] = 7
    np.testing.assert_allclose(answer, expected(IMAGE), rtol=1e-5, atol=1e-5)


def test_an_array_that_is_not_contiguous_is_read_right(engine_name: str, write_model: Write) -> None:
    engine = open_engine(write_model(), engine_name)
    reversed_view = IMAGE[..., ::-1]
    np.testing.assert_allclose(engine.run([reversed_view])[0], expected(reversed_view.copy()), rtol=1e-5, atol=1e-5)


def test_the_same_input_gives_the_same_bits(engine_name: str, write_model: Write) -> None:
    path = write_model()
    first = open_engine(path, engine_name).run([IMAGE])[0]
    second = open_engine(path, engine_name).run([IMAGE])[0]
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (IMAGE[0], "has shape (1, 4, 4, 3), got (4, 4, 3)"),
        (np.zeros((2, 4, 4, 3), np.float32), "has shape (1, 4, 4, 3), got (2, 4, 4, 3)"),
        (IMAGE.astype(np.float64), "is float32, got float64"),
        (np.zeros(SHAPE, np.uint8), "is float32, got uint8"),
    ],
)
def test_an_array_of_another_shape_or_dtype_is_refused(
    engine_name: str, write_model: Write, array: np.ndarray, words: str
) -> None:
    engine = open_engine(write_model(), engine_name)
    with pytest.raises(ContractError) as caught:
        engine.run([array])
    assert words in str(caught.value)
    assert engine.inputs[0].name in str(caught.value)


def test_too_many_arrays_are_refused(engine_name: str, write_model: Write) -> None:
    with pytest.raises(ContractError, match="takes 1 inputs"):
        open_engine(write_model(), engine_name).run([IMAGE, IMAGE])


@pytest.mark.parametrize("content", [b"garbage" * 100, b"\x00" * 64, b"PK\x03\x04zip", b"{}"])
def test_a_file_that_is_no_model_is_refused(engine_name: str, write_model: Write, content: bytes) -> None:
    path = write_model()
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=path.name):
        open_engine(path, engine_name)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_refused(engine_name: str, write_model: Write, share: float) -> None:
    path = write_model(quantized=Quantized())
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ModelFileError, match=path.name):
        open_engine(path, engine_name)


def test_a_missing_an_empty_file_and_a_folder_are_refused(engine_name: str, write_model: Write) -> None:
    path = write_model()
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="is empty"):
        open_engine(path, engine_name)
    path.unlink()
    with pytest.raises(ModelFileMissingError, match="no model file at"):
        open_engine(path, engine_name)
    path.mkdir()
    with pytest.raises(ModelFileError, match="is a folder"):
        open_engine(path, engine_name)


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf")])
def test_a_scale_that_means_nothing_is_refused_by_name(engine_name: str, write_model: Write, scale: float) -> None:
    path = write_model(quantized=Quantized(input_scale=scale))
    with pytest.raises(ModelFileError):
        open_engine(path, engine_name)


def test_a_scale_of_zero_on_the_output_is_explained(engine_name: str, write_model: Write) -> None:
    path = write_model(quantized=Quantized(output_scale=0.0))
    with pytest.raises(ModelFileError, match=r"scale 0\.0; a scale has to be a finite number above 0"):
        open_engine(path, engine_name)


def test_the_file_type_has_to_be_one_that_the_engine_runs(engine_name: str, write_model: Write) -> None:
    path = write_model()
    other = path.with_suffix(".onnx" if engine_name == "litert" else ".tflite")
    path.rename(other)
    with pytest.raises(ModelFileError, match=f"engine '{engine_name}' runs"):
        open_engine(other, engine_name)


_COUNT_THREADS = """
import sys, numpy as np
from pathlib import Path
from edge_runtime.engines import open_engine
def count(threads):
    engine = open_engine(sys.argv[1], sys.argv[2], threads)
    engine.run([np.ones(engine.inputs[0].shape, np.float32)])
    return engine, len(list(Path("/proc/self/task").iterdir()))
one, with_one = count(1)
three, with_three = count(3)
assert (one.threads, three.threads) == (1, 3)
print(with_three - with_one)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_the_engine_starts_the_threads_asked_for(engine_name: str, write_model: Write) -> None:
    command = [sys.executable, "-c", _COUNT_THREADS, str(write_model()), engine_name]
    more = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if engine_name == "openvino":  # its executor keeps threads of its own beside those that compute
        assert more >= 2
    else:
        assert more == 2


def test_an_unknown_engine_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownEngineError, match="unknown engine 'litrt'; did you mean 'litert'"):
        open_engine(write_tflite(tmp_path / "model.tflite"), "litrt")


@pytest.mark.parametrize("threads", [0, -1])
def test_fewer_threads_than_one_are_refused(tmp_path: Path, threads: int) -> None:
    with pytest.raises(EngineError, match="threads must be at least 1"):
        open_engine(write_tflite(tmp_path / "model.tflite"), threads=threads)


def test_a_missing_package_is_answered_with_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tflite(tmp_path / "model.tflite")
    monkeypatch.setattr(engines, "is_installed", lambda spec: False)
    with pytest.raises(EngineMissingError, match=r"pip install edgepress\[litert\]") as caught:
        open_engine(path)
    assert caught.value.exit_code == 5


def test_every_extra_named_in_a_message_exists() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    for spec in engine_specs().values():
        assert any(requirement.startswith(spec.distribution) for requirement in extras[spec.extra])


def test_the_default_engine_follows_the_file_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_engine("a.tflite") == "litert"
    assert default_engine("a.ONNX") == "onnxruntime"
    monkeypatch.setattr(engines, "is_installed", lambda spec: spec.name == "openvino")
    assert default_engine("a.onnx") == "openvino"
    with pytest.raises(ModelFileError, match=r"no engine runs '.pt' files; expected one of .onnx, .tflite"):
        default_engine("a.pt")


def test_a_third_party_adds_an_engine_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EntryPoint("other", "tests.edge_runtime.test_engines:OTHER", engines.ENTRY_POINTS)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
    path = tmp_path / "model.other"
    path.write_bytes(b"anything")
    assert default_engine(path) == "other"
    assert engine_spec("other") is OTHER
    assert open_engine(path, threads=2) == ("opened", path, 2)  # type: ignore[comparison-overlap]


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EntryPoint("broken", "tests.edge_runtime.no_such_module:X", engines.ENTRY_POINTS)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
    with pytest.raises(EngineError, match=r"engine 'broken' .* cannot be loaded"):
        engine_spec("another")


OTHER = EngineSpec("other", "tests.edge_runtime.test_engines", "json", "json", "other", (".other",))


def open_model(path: Path, threads: int, version: str) -> object:
    return ("opened", path, threads)


def test_litert_without_its_delegate_says_so(tmp_path: Path) -> None:
    from edge_runtime.engines.litert import LiteRT

    path = write_tflite(tmp_path / "model.tflite")
    plain = LiteRT(path, 1, "", delegate=False)
    assert plain.delegate == "builtin"
    np.testing.assert_allclose(plain.run([IMAGE])[0], expected(IMAGE), rtol=1e-5, atol=1e-5)


def test_litert_takes_names_from_the_signature_or_else_from_the_tensors(tmp_path: Path) -> None:
    named = open_engine(write_tflite(tmp_path / "a.tflite", signature=True))
    plain = open_engine(write_tflite(tmp_path / "b.tflite", signature=False))
    assert (named.inputs[0].name, named.outputs[0].name) == ("args_0", "output_0")
    assert (plain.inputs[0].name, plain.outputs[0].name) == ("x", "y")


_TELEMETRY = """
import sys
from edge_runtime.engines import open_engine
open_engine(sys.argv[1], "openvino")
assert not any(name.startswith("openvino_telemetry") for name in sys.modules), "telemetry was imported"
"""


def test_openvino_is_imported_without_its_telemetry(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = write_onnx(tmp_path / "model.onnx")
    child = subprocess.run([sys.executable, "-c", _TELEMETRY, str(path)], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
