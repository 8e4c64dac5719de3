"""One request, start to end, inside a converter process: load, convert once, derive, check, deliver."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from edge_runtime import contract as contracts
from edge_runtime.contract import Contract
from edge_runtime.files import write_atomically
from export import equalize, fold
from export.calibration import open_samples
from export.errors import ConversionError
from export.graph import summarize
from export.inspect import read_graph, require_int8
from export.layout import Samples, file_input
from export.learned import PROBES, Learned, prepare
from export.module import check_contract, load_module, reference_outputs
from export.parity import compare, run_file
from export.ranges import Estimator
from export.request import ConversionRequest, ConvertedFile, Format, Precision
from export.targets import Target, resolve_target

FLOAT = "float"


@dataclass(frozen=True)
class Made:
    """The content of a file, not yet on disk, and the INT8 scheme used."""

    content: bytes
    scheme: str


Derive = Callable[[Precision], Made]


def convert_all(request: ConversionRequest) -> tuple[ConvertedFile, ...]:
    """Every file of the request, checked. Nothing is in the output directory unless all of them are good.

    Raises ConversionError, or whatever a converter raises; OSError from the disk.
    """
    check_contract(request.contract)
    target = resolve_target(request.target)
    parity = open_samples(request.parity, request.contract, "parity")
    calibration = _calibration(request)
    with torch.no_grad():
        module = load_module(request.source)
        references = reference_outputs(module, request.contract, parity)
        folded = _folded(module, parity)
        learned = _learned(folded, request, parity)
        folded = _equalized(folded, request, parity)
        derive = _MAKERS[request.format](folded, request, calibration, target, learned)
    inputs = [file_input(request.contract, sample) for sample in parity]
    directory = Path(request.output_directory)
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=directory) as folder:
        files = []
        for precision in request.precisions:
            path = Path(folder) / f"model-{precision}.{request.format}"
            made = derive(precision)
            files.append(_checked(path, precision, made, request, inputs, references, target))
        return tuple(_deliver(file, directory) for file in files)


def file_contract(request: ConversionRequest, precision: Precision) -> Contract:
    """The contract of the file: integer inputs and outputs are for `int8` alone."""
    if precision != "int8":
        return request.contract
    return replace(
        request.contract,
        inputs=tuple(replace(spec, dtype=request.input_dtype) for spec in request.contract.inputs),
        outputs=tuple(replace(spec, dtype=request.output_dtype) for spec in request.contract.outputs),
    )


def _calibration(request: ConversionRequest) -> Samples | None:
    if "int8" not in request.precisions:
        return None
    if request.calibration is None:
        raise ConversionError("int8 needs calibration samples, and the request names no file", "calibration")
    return open_samples(request.calibration, request.contract, "calibration")


def _folded(module: nn.Module, parity: Samples) -> nn.Module:
    folds = fold.find_folds(module)
    if not folds:
        return module
    folded = fold.fold(module, folds)
    return folded if fold.same_function(module, folded, torch.from_numpy(np.array(parity[:1]))) else module


def _equalized(module: nn.Module, request: ConversionRequest, parity: Samples) -> nn.Module:
    """Even channels for the INT8 file; the check of the float file proves that the function stayed."""
    if not request.equalize or "int8" not in request.precisions or request.learned is not None:
        return module
    pairs = equalize.find_pairs(module, torch.from_numpy(np.array(parity[:1])))
    return equalize.equalize(module, pairs)


def _learned(module: nn.Module, request: ConversionRequest, parity: Samples) -> Learned | None:
    if request.learned is None or "int8" not in request.precisions:
        return None
    probes = tuple(file_input(request.contract, sample) for sample in parity[:PROBES])
    return Learned(prepare(module, request.learned, parity), probes)


def _onnx(
    module: nn.Module,
    request: ConversionRequest,
    calibration: Samples | None,
    target: Target,
    learned: Learned | None,
) -> Derive:
    from export import int8_onnx
    from export.onnx import convert_float, serialize, strip

    model = convert_float(module, request.contract)

    def derive(precision: Precision) -> Made:
        if precision == "fp32":
            return Made(serialize(model), FLOAT)
        scheme = FLOAT
        if precision == "fp16":
            result = int8_onnx.to_fp16(model)
        elif precision == "int8-dynamic":
            result, scheme = int8_onnx.to_int8_dynamic(model), int8_onnx.DYNAMIC_SCHEME
        else:
            inputs = CalibrationInputs(calibration, request.contract)
            result = int8_onnx.to_int8(model, inputs, target, learned=learned, estimator=_estimator(request))
            scheme = int8_onnx.scheme(target)
        strip(result)
        if precision == "int8":
            result = int8_onnx.store_interface(result, request.input_dtype, request.output_dtype)
        return Made(serialize(result), scheme)

    return derive


def _tflite(
    module: nn.Module,
    request: ConversionRequest,
    calibration: Samples | None,
    target: Target,
    learned: Learned | None,
) -> Derive:
    from export import int8_tflite
    from export.tflite import convert_float

    model = convert_float(module, request.contract)

    def derive(precision: Precision) -> Made:
        if precision == "fp32":
            return Made(model, FLOAT)
        if precision == "fp16":
            return Made(int8_tflite.to_fp16(model), FLOAT)
        if precision == "int8-dynamic":
            return Made(int8_tflite.to_int8_dynamic(model), int8_tflite.DYNAMIC_SCHEME)
        name = request.contract.inputs[0].name
        inputs = CalibrationInputs(calibration, request.contract, name)
        content = int8_tflite.to_int8(
            model,
            inputs,
            request.input_dtype,
            request.output_dtype,
            learned=learned,
            estimator=_estimator(request),
        )
        return Made(content, int8_tflite.SCHEME)

    return derive


_Maker = Callable[[nn.Module, ConversionRequest, Samples | None, Target, Learned | None], Derive]

_MAKERS: dict[Format, _Maker] = {
    "onnx": _onnx,
    "tflite": _tflite,
}


class CalibrationInputs:
    """The calibration samples as the file takes them, one at a time, as often as asked; by name where there is one."""

    def __init__(self, samples: Samples | None, contract: Contract, name: str | None = None) -> None:
        assert samples is not None  # checked before anything was converted
        self._samples, self._contract, self._name = samples, contract, name

    def __iter__(self) -> Iterator[Any]:
        for sample in self._samples:
            array = file_input(self._contract, sample)
            yield array if self._name is None else {self._name: array}


def _estimator(request: ConversionRequest) -> Estimator:
    return Estimator(request.ranges, request.percentile)


def _checked(
    path: Path,
    precision: Precision,
    made: Made,
    request: ConversionRequest,
    inputs: list[Samples],
    references: list[Samples],
    target: Target,
) -> ConvertedFile:
    write_atomically(path, made.content)
    graph = read_graph(path)
    inspection = summarize(graph)
    if precision == "int8":
        require_int8(graph, inspection)
    contract = file_contract(request, precision)
    contracts.save(contract, contracts.contract_path(path))
    outputs = run_file(path, contract, inputs, target.engines[request.format])
    parity = compare(outputs, references, precision)
    return ConvertedFile(precision, str(path), contract, parity, inspection, made.scheme)


def _deliver(file: ConvertedFile, directory: Path) -> ConvertedFile:
    """Moves a file and its contract to where they were asked for; the contract first, so that no file is without."""
    source = Path(file.path)
    path = directory / source.name
    os.replace(contracts.contract_path(source), contracts.contract_path(path))
    os.replace(source, path)
    return replace(file, path=str(path))
