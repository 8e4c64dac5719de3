"""The tiny network converted once per format, in every precision, for all tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract
from export.convert import convert
from export.request import (
    PRECISIONS,
    ConversionAnswer,
    ConversionRequest,
    ConvertedFile,
    Format,
    ModuleSource,
    Precision,
)
from tests.export.networks import CLASSES, SIZE

MEAN, STD = (0.5, 0.4, 0.6), (0.25, 0.2, 0.3)


def make_contract(format_: Format = "onnx") -> Contract:
    """The tiny network's interface in the default layout of a format."""
    spec = ImagePreprocess(SIZE, SIZE, "RGB", "stretch", MEAN, STD)
    shape, layout = ((1, 3, SIZE, SIZE), "NCHW") if format_ == "onnx" else ((1, SIZE, SIZE, 3), "NHWC")
    return Contract(
        task="image-classification",
        inputs=(InputContract("input", shape, "float32", layout, spec),),  # type: ignore[arg-type]
        outputs=(OutputContract("logits", (1, CLASSES), "float32", "logits"),),
        labels=tuple(f"class {index}" for index in range(CLASSES)),
    )


def make_samples(count: int, seed: int = 0) -> np.ndarray:
    """Preprocessed images (N, C, H, W): bright or dark, so that answers differ from sample to sample."""
    generator = np.random.default_rng(seed)
    pixels = generator.random((count, 3, SIZE, SIZE)) * generator.random((count, 3, 1, 1))
    mean, std = (np.asarray(values).reshape(1, 3, 1, 1) for values in (MEAN, STD))
    return ((pixels - mean) / std).astype(np.float32)


def make_request(folder: Path, format_: Format = "onnx", factory: str = "tiny", **changes: Any) -> ConversionRequest:
    """A request for `factory` of `tests.export.networks`; its files go to `folder / output`."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "output"
    output.mkdir(exist_ok=True)
    np.save(folder / "calibration.npy", make_samples(64, seed=1))
    np.save(folder / "parity.npy", make_samples(16, seed=2))
    settings: dict[str, Any] = {
        "source": ModuleSource(f"tests.export.networks:{factory}", {}),
        "contract": make_contract(format_),
        "format": format_,
        "precisions": ("fp32",),
        "output_directory": str(output),
        "parity": str(folder / "parity.npy"),
        "calibration": str(folder / "calibration.npy"),
        "target": "x86-avx2",
    }
    return ConversionRequest(**(settings | changes))


@dataclass(frozen=True)
class Converted:
    """An answer with its request."""

    request: ConversionRequest
    answer: ConversionAnswer

    def file(self, precision: Precision) -> ConvertedFile:
        return next(file for file in self.answer.files if file.precision == precision)


def _converted(folder: Path, format_: Format) -> Converted:
    request = make_request(folder, format_, precisions=PRECISIONS)
    return Converted(request, convert(request, timeout=600))


@pytest.fixture(scope="session")
def onnx_files(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return _converted(tmp_path_factory.mktemp("onnx"), "onnx")


@pytest.fixture(scope="session")
def tflite_files(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return _converted(tmp_path_factory.mktemp("tflite"), "tflite")


@pytest.fixture(scope="session")
def converted(onnx_files: Converted, tflite_files: Converted) -> dict[Format, Converted]:
    return {"onnx": onnx_files, "tflite": tflite_files}
