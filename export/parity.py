"""Compares a converted file with the torch module it came from, on the engine that ships.

fp32 has to agree within a thousandth. Other precisions are reported, unless the outputs have collapsed: a file whose
answers no longer depend on its input, or that saturate, is an error whatever its precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_runtime.contract import Contract
from edge_runtime.engines.protocol import TensorInfo
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.session import open_session
from export.errors import ConversionError
from export.request import Parity, Precision

Values = NDArray[np.float32]

FP32_LIMIT = 1e-3
MAX_DECIBEL = 200.0
"""What is reported for the signal-to-noise ratio of equal outputs: JSON has no infinity."""


@dataclass(frozen=True)
class Output:
    """One output over all samples: `values` (N, ...) real numbers, `stored` as the file gave them."""

    name: str
    values: Values
    stored: NDArray[np.generic]
    tensor: TensorInfo


def run_file(path: Path, contract: Contract, inputs: list[Values], engine: str, threads: int = 1) -> list[Output]:
    """The file's answers to `inputs`, each as the file takes it, with batch 1.

    Raises ConversionError when the engine refuses the file or fails on it.
    """
    try:
        session = open_session(path, engine, threads, contract)
        tensors = {tensor.name: tensor for tensor in session.engine.outputs}
        order = [list(tensors).index(spec.name) for spec in contract.outputs]
        stored, values = [], []
        for array in inputs:
            raw = session.engine.run(session.quantize([array]))
            stored.append([raw[position] for position in order])
            values.append(session.dequantize(raw))
    except EdgeRuntimeError as error:
        raise ConversionError(f"{engine} does not run the converted file: {error}", "parity") from error
    return [
        Output(
            spec.name,
            np.concatenate([answer[index] for answer in values]),
            np.concatenate([answer[index] for answer in stored]),
            tensors[spec.name],
        )
        for index, spec in enumerate(contract.outputs)
    ]


def compare(outputs: list[Output], references: list[Values], precision: Precision) -> Parity:
    """The file's outputs against the torch module's.

    Raises ConversionError when an output has collapsed (names the tensor and the likely cause), or when fp32 differs
    by more than 1e-3 of the largest value.
    """
    for output, reference in zip(outputs, references, strict=True):
        problem = collapse(output, reference, precision)
        if problem is not None:
            raise ConversionError(f"{precision}: output '{output.name}' {problem}", "parity")
    parity = measure([output.values for output in outputs], references)
    if precision == "fp32" and not parity.max_relative <= FP32_LIMIT:
        raise ConversionError(
            f"fp32: the file differs from the torch module by {parity.max_relative:.2e} of the largest output on "
            f"{parity.samples} samples, at most {FP32_LIMIT:.0e} is taken",
            "parity",
        )
    return parity


def measure(outputs: list[Values], references: list[Values]) -> Parity:
    """Differences over all outputs, the worst one of each figure; the argmax is that of the first output."""
    pairs = list(zip(outputs, references, strict=True))
    absolute = [float(np.abs(output - reference).max()) for output, reference in pairs]
    largest = [float(np.abs(reference).max()) for reference in references]
    relative = [difference / (scale or 1.0) for difference, scale in zip(absolute, largest, strict=True)]
    first, expected = (values.reshape(len(values), -1).argmax(axis=1) for values in pairs[0])
    return Parity(
        samples=len(references[0]),
        max_absolute=max(absolute),
        max_relative=max(relative),
        signal_to_noise_db=min(_decibel(*pair) for pair in pairs),
        argmax_agreement=float((first == expected).mean()),
    )


def collapse(output: Output, reference: Values, precision: Precision) -> str | None:
    """What is wrong with an output that no longer says anything, and why that may be; None when it is alive."""
    values = output.values.reshape(len(output.values), -1)
    expected = reference.reshape(len(reference), -1)
    if not np.isfinite(values).all():
        why = "values beyond 65504 overflow fp16" if precision == "fp16" else "an operator overflows or divides by zero"
        return f"holds NaN or infinite values; likely cause: {why}"
    spread = float(np.ptp(expected, axis=0).max())
    if spread == 0.0:
        return None  # the torch module itself answers the same to every sample, or there is only one
    if float(np.ptp(values, axis=0).max()) == 0.0:
        return f"is the same for all {len(values)} samples{_stuck(output)}; likely cause: {_why(output, expected)}"
    if np.issubdtype(output.stored.dtype, np.integer):
        limits = np.iinfo(output.stored.dtype)  # type: ignore[type-var]
        if ((output.stored == limits.min) | (output.stored == limits.max)).all():
            return f"is saturated, every value lies at an end of its range; likely cause: {_why(output, expected)}"
    return None


def _stuck(output: Output) -> str:
    """A remark when all stored values are the zero point, which stands for 0."""
    zero_point = output.tensor.zero_point
    return f" and stuck at its zero point {zero_point}" if (output.stored == (zero_point or 0)).all() else ""


def _why(output: Output, expected: Values) -> str:
    low, high = float(expected.min()), float(expected.max())
    spread = float(np.ptp(expected, axis=0).max())
    scale = output.tensor.scale
    if scale is None:
        return (
            "an INT8 scale inside the network is too coarse (values of different magnitude share one tensor), or the "
            "calibration samples do not look like the data"
        )
    limits = np.iinfo(output.tensor.dtype)
    zero_point = output.tensor.zero_point or 0
    covered = ((limits.min - zero_point) * scale, (limits.max - zero_point) * scale)
    if scale > spread:
        return (
            f"its scale {scale:.3g} is coarser than the values, which vary by {spread:.3g} over the samples; values of "
            "different magnitude may share this tensor"
        )
    return (
        f"its range {covered[0]:.3g} to {covered[1]:.3g} does not fit the values, {low:.3g} to {high:.3g}: the "
        "calibration samples do not look like the data"
    )


def _decibel(output: Values, reference: Values) -> float:
    noise = float(np.square(output - reference, dtype=np.float64).sum())
    signal = float(np.square(reference, dtype=np.float64).sum())
    if noise == 0.0:
        return MAX_DECIBEL
    if signal == 0.0:
        return -MAX_DECIBEL
    return float(np.clip(10 * np.log10(signal / noise), -MAX_DECIBEL, MAX_DECIBEL))
