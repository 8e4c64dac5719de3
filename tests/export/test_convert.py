from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from edge_runtime import contract as contracts
from edge_runtime.session import open_session
from export.convert import child_environment, convert
from export.errors import ConversionError
from export.request import FORMATS, PRECISIONS, Format, ModuleSource, Precision
from export.wire import request_to_json
from tests.export.conftest import Converted, make_request, make_samples

BOTH = pytest.mark.parametrize("format_", FORMATS)
ALL = pytest.mark.parametrize("precision", PRECISIONS)


@BOTH
@ALL
def test_every_precision_becomes_a_file_with_its_contract_beside_it(
    converted: dict[Format, Converted], format_: Format, precision: Precision
) -> None:
    done = converted[format_]
    file = done.file(precision)
    assert file.path == f"{done.request.output_directory}/model-{precision}.{format_}"
    assert contracts.load(contracts.contract_path(file.path)) == file.contract == done.request.contract


@BOTH
@ALL
def test_files_agree_with_the_torch_module(
    converted: dict[Format, Converted], format_: Format, precision: Precision
) -> None:
    parity = converted[format_].file(precision).parity
    at_least = {"fp32": 100, "fp16": 55, "int8-dynamic": 30, "int8": 30}[precision]
    assert parity.samples == 16
    assert parity.signal_to_noise_db > at_least
    assert parity.argmax_agreement >= 15 / 16
    assert 0 < parity.max_absolute < 10


@BOTH
def test_the_answer_tells_time_memory_and_versions(converted: dict[Format, Converted], format_: Format) -> None:
    answer = converted[format_].answer
    assert 0 < answer.seconds < 600
    assert 300e6 < answer.peak_memory_bytes < 4e9
    assert answer.versions["torch"]


@BOTH
def test_nothing_but_the_files_is_left_in_the_output_directory(
    converted: dict[Format, Converted], format_: Format
) -> None:
    expected = [
        f"model-{precision}{suffix}" for precision in PRECISIONS for suffix in (f".{format_}", ".contract.json")
    ]
    assert sorted(os.listdir(converted[format_].request.output_directory)) == sorted(expected)


@BOTH
def test_the_same_request_gives_the_same_bytes_in_another_process(
    converted: dict[Format, Converted], format_: Format, tmp_path: Path
) -> None:
    done = converted[format_]
    output = tmp_path / "elsewhere"
    output.mkdir()
    again = convert(replace(done.request, output_directory=str(output)), timeout=600)
    assert {file.precision: _digest(file.path) for file in again.files} == {
        file.precision: _digest(file.path) for file in done.answer.files
    }


@BOTH
@ALL
def test_files_hold_no_path_of_this_machine(
    converted: dict[Format, Converted], format_: Format, precision: Precision
) -> None:
    content = Path(converted[format_].file(precision).path).read_bytes()
    assert b"site-packages" not in content
    assert str(Path(__file__).parent).encode() not in content


@BOTH
def test_weights_take_a_quarter_of_the_bytes_in_int8_and_half_in_fp16(
    converted: dict[Format, Converted], format_: Format
) -> None:
    weights = {file.precision: file.inspection.weight_bytes for file in converted[format_].answer.files}
    assert weights["fp32"] == 2 * weights["fp16"] == 4 * weights["int8"] == 4 * weights["int8-dynamic"]


def test_a_killed_converter_is_an_error_that_names_the_signal(tmp_path: Path) -> None:
    request = make_request(tmp_path, factory="killed")
    with pytest.raises(ConversionError, match=r"killed by SIGKILL \(out of memory") as caught:
        convert(request, timeout=300)
    assert caught.value.kind == "killed"
    assert os.listdir(request.output_directory) == []


def test_a_converter_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"ran longer than 0\.5 s") as caught:
        convert(make_request(tmp_path, factory="endless"), timeout=0.5)
    assert caught.value.kind == "timeout"


def test_a_converter_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(request_to_json(make_request(tmp_path, factory="endless")))
    code = (
        "from pathlib import Path; from export.convert import convert; from export.wire import request_from_json;"
        f"convert(request_from_json(Path({str(request)!r}).read_text()))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=child_environment(1))
    child = _wait_for(lambda: next(iter(psutil.Process(parent.pid).children()), None))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    request = make_request(tmp_path, factory="full_disk")
    with pytest.raises(ConversionError, match="no space to write files in") as caught:
        convert(request, timeout=300)
    assert caught.value.kind == "disk-full"
    assert os.listdir(request.output_directory) == []


def test_an_operator_without_a_tflite_form_is_named_with_its_module_path(tmp_path: Path) -> None:
    request = make_request(tmp_path, "tflite")
    source = ModuleSource("tests.export.networks:unsupported", {"operator": "lgamma"})
    with pytest.raises(ConversionError) as caught:
        convert(replace(request, source=source), timeout=300)
    assert caught.value.kind == "unsupported-operator"
    assert str(caught.value).splitlines()[-1] == (
        "converting tests.export.networks:unsupported to tflite: operator aten.lgamma.default in module "
        "'features.1.inner' (_Special) is not supported"
    )
    assert "Lowering not found" in caught.value.__notes__[0]


def test_the_environment_of_converters_is_quiet_and_limits_threads() -> None:
    environment = child_environment(3)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["LITERT_TORCH_SHOW_PROGRESS"] == "n"
    assert environment["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_asking_for_conversions_imports_no_framework() -> None:
    code = (
        "import sys; import export.convert, export.targets, export.errors;"
        "print(sorted({'torch', 'onnx', 'onnxruntime', 'ai_edge_litert'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@BOTH
def test_int8_files_run_on_the_shipped_engine(converted: dict[Format, Converted], format_: Format) -> None:
    session = open_session(converted[format_].file("int8").path)
    sample = make_samples(1)
    (logits,) = session.predict([sample if format_ == "onnx" else sample.transpose(0, 2, 3, 1).copy()])
    assert logits.shape == (1, 5)


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _wait_for(condition, seconds: float = 60.0):  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("waited in vain")
