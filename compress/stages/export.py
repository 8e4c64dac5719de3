"""Exports a torch model to ONNX and TFLite files in every precision asked for.

The converter checks each file before it delivers it: against the torch model, and against what its name says.

Samples for calibration come from the calibration split through the preprocessing of inference, and are streamed to a
file that the converter maps into memory. Each format is converted by one short child process, two at a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from compress.errors import EnvironmentProblem, StageError
from compress.measurement.samples import CalibrationCard, in_layout, write_samples
from compress.models.saved import read_architecture
from compress.models.variant import FileVariant, TorchVariant, Variant
from compress.recipe.types import Boolean, Duration, Fraction, OneOrMany, PositiveInt
from compress.stages.protocol import StageContext, StageSettings
from export.convert import convert
from export.errors import ConversionError
from export.request import (
    ConversionAnswer,
    ConversionRequest,
    ConvertedFile,
    Format,
    ModuleSource,
    Precision,
    RangeEstimator,
)

_PARITY_POOL = 16
"""Samples for parity are taken from so many times as many: they need some variety, not the whole split."""
_FACTORY = "compress.models.saved:load_model"
_PROCESSES = 2
_DEFAULT_LAYOUT: dict[Format, Literal["NHWC", "NCHW"]] = {"onnx": "NCHW", "tflite": "NHWC"}


class ExportSettings(StageSettings):
    """What to export. Every format is exported in every precision, as `<torch variant>/<format>-<precision>`."""

    format: OneOrMany[Format] = Field(description="`onnx`, `tflite`, or a list")
    precision: OneOrMany[Precision] = Field(("fp32",), description="`fp32`, `fp16`, `int8-dynamic`, `int8`, or a list")
    layout: Literal["NHWC", "NCHW"] | None = Field(
        None, description="axes of the image input; default: NHWC for TFLite, NCHW for ONNX"
    )
    input_dtype: Literal["float32", "int8", "uint8"] = Field("float32", description="input of the `int8` files")
    output_dtype: Literal["float32", "int8", "uint8"] = Field("float32", description="output of the `int8` files")
    calibration: PositiveInt = Field(256, description="samples of the calibration split that set the INT8 ranges")
    ranges: RangeEstimator = Field(
        "min-max",
        description="how INT8 ranges follow from calibration: all that was seen, all but outliers (`percentile`), the "
        "least squared error (`mse`), the least divergence (`entropy`), or a `moving-average`",
    )
    percentile: Fraction = Field(0.9999, description="share of the values that stay inside, for `ranges: percentile`")
    equalize: Boolean = Field(
        False,
        description="even out the weights of channels between layers where `int8` is exported (cross-layer "
        "equalization); the function stays, and every file of the export has the new weights",
    )
    parity: PositiveInt = Field(32, description="samples on which each file is compared with the torch model")
    timeout: Duration = Field(900.0, gt=0, description="time limit of one conversion")


class ExportStage:
    """One torch variant in, a file for each format and precision out."""

    name: ClassVar[str] = "export"
    Settings: type[StageSettings] = ExportSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "file"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = (
        "torch",
        "torchvision",
        "pillow",
        "litert-torch",
        "litert-quantizer",
        "ai-edge-litert",
        "onnx",
        "onnxscript",
        "onnxslim",
        "onnxruntime",
        "numpy",
    )

    def result_names(self, stage_id: str, parents: Sequence[str], settings: ExportSettings) -> tuple[str, ...]:
        return tuple(
            f"{parent}/{format_}-{precision}"
            for parent in parents
            for format_ in settings.format
            for precision in settings.precision
        )

    def references(self, settings: ExportSettings) -> tuple[str, ...]:
        return ()

    def run(self, parents: Sequence[Variant], settings: ExportSettings, context: StageContext) -> tuple[Variant, ...]:
        (parent,) = parents
        if not isinstance(parent, TorchVariant):
            raise StageError(f"{context.stage_id}: expected a torch model to export, got {parent.name}")
        samples = context.work / "export-samples"
        samples.mkdir(parents=True, exist_ok=True)
        parity, _ = write_samples(
            context.data,
            parent.contract,
            "validation",
            settings.parity,
            samples / "parity.npy",
            pool=settings.parity * _PARITY_POOL,
        )
        calibration, card = None, None
        if "int8" in settings.precision:
            calibration, card = write_samples(
                context.data, parent.contract, "calibration", settings.calibration, samples / "calibration.npy"
            )
        requests = plan_requests(parent, settings, context, parity, calibration)
        answers = _convert_all(requests, settings.timeout, context)
        files = {
            (request.format, file.precision): (file, answer)
            for request, answer in zip(requests, answers, strict=True)
            for file in answer.files
        }
        wanted = [(format_, precision) for format_ in settings.format for precision in settings.precision]
        return tuple(
            _variant(name, parent, *_found(files, key, name), key[0], card)
            for name, key in zip(context.names, wanted, strict=True)
        )


def plan_requests(
    parent: TorchVariant, settings: ExportSettings, context: StageContext, parity: Path, calibration: Path | None
) -> list[ConversionRequest]:
    """The conversions to do, one for each format, with the scales that a `quantize` stage learned. Starts nothing."""
    source = ModuleSource(_FACTORY, {"directory": str(parent.directory), "verify": parent.digest})
    learned = read_architecture(parent.directory).quantization
    return [
        ConversionRequest(
            source=source,
            contract=in_layout(parent.contract, settings.layout or _DEFAULT_LAYOUT[format_]),
            format=format_,
            precisions=settings.precision,
            output_directory=str(context.output / format_),
            parity=str(parity),
            calibration=str(calibration) if calibration is not None else None,
            target=context.target.name,
            input_dtype=settings.input_dtype,
            output_dtype=settings.output_dtype,
            learned=learned,
            ranges=settings.ranges,
            percentile=settings.percentile,
            equalize=settings.equalize,
        )
        for format_ in dict.fromkeys(settings.format)
    ]


def _convert_all(
    requests: Sequence[ConversionRequest], timeout: float, context: StageContext
) -> list[ConversionAnswer]:
    """Runs the conversions, two at a time where there are cores for it."""

    def one(request: ConversionRequest) -> ConversionAnswer:
        Path(request.output_directory).mkdir(parents=True, exist_ok=True)
        try:
            answer = convert(request, timeout=timeout)
        except ConversionError as error:
            problem = EnvironmentProblem if error.kind == "disk-full" else StageError
            raise problem(str(error)) from error
        context.progress(f"{request.format}: {len(answer.files)} files in {answer.seconds:.0f} s")
        return answer

    workers = min(_PROCESSES, os.cpu_count() or 1, len(requests))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(one, requests))


def _found(
    files: dict[tuple[Format, Precision], tuple[ConvertedFile, ConversionAnswer]],
    key: tuple[Format, Precision],
    name: str,
) -> tuple[ConvertedFile, ConversionAnswer]:
    if key not in files:
        raise StageError(f"{name}: the converter gave no {key[1]} file")
    return files[key]


def _variant(
    name: str,
    parent: TorchVariant,
    file: ConvertedFile,
    answer: ConversionAnswer,
    format_: Format,
    card: CalibrationCard | None,
) -> FileVariant:
    path = Path(file.path)
    notes: dict[str, Any] = {
        "conversion": {"seconds": answer.seconds, "peak_memory_bytes": answer.peak_memory_bytes} | answer.versions
    }
    if card is not None and file.precision == "int8":
        notes["calibration"] = asdict(card)
    return FileVariant(
        name=name,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        path=path,
        format=format_,
        precision=file.precision,
        contract=file.contract,
        parameters=parent.parameters,
        macs=parent.macs,
        lineage=(*parent.lineage, parent.name),
        parent=parent,
        parity=file.parity,
        inspection=file.inspection,
        scheme=file.scheme,
        notes=notes,
    )


STAGE = ExportStage()
