"""What passes between the pipeline and a converter process: a JSON request in, files and a JSON answer out.

Importing this module imports no framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from edge_runtime.contract import Contract

Format = Literal["onnx", "tflite"]
Precision = Literal["fp32", "fp16", "int8-dynamic", "int8"]
IODType = Literal["float32", "int8", "uint8"]
RangeEstimator = Literal["min-max", "percentile", "mse", "entropy", "moving-average"]

FORMATS: tuple[Format, ...] = ("onnx", "tflite")
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8-dynamic", "int8")


@dataclass(frozen=True)
class ModuleSource:
    """How the converter process gets the module: an importable factory and its JSON arguments.

    The factory returns a `torch.nn.Module` in evaluation mode. Naming it, instead of importing it, keeps this floor
    free of the ones above, and keeps module paths in the exported graph (a serialized program loses them).
    """

    factory: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ActivationScale:
    """Scale and zero point (of uint8, 0 to 255) at one of the points of `export.points`."""

    point: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class WeightScale:
    """The scale of each output channel of a layer (a module path); the zero point is 0."""

    layer: str
    scales: tuple[float, ...]


@dataclass(frozen=True)
class LearnedQuantization:
    """What training with fake quantization learned: every scale that an INT8 file has to have.

    Weights are integers from `-weight_levels` to `weight_levels`: 127, or 64 where larger ones would saturate.
    """

    activations: tuple[ActivationScale, ...]
    weights: tuple[WeightScale, ...]
    weight_levels: int


@dataclass(frozen=True)
class ConversionRequest:
    """One model, one format; every precision is derived from one float conversion.

    `contract` describes the wanted file with float32 inputs and outputs (shape with batch, layout NHWC or NCHW).
    The torch module itself always takes NCHW; for a contract in NHWC the converter moves the axes.
    `calibration` names a `.npy` file of float32 preprocessed inputs (N, C, H, W), read through a memory map, one
    sample at a time. `parity` names the same kind of file with the samples on which file and torch module are
    compared. `learned` replaces, in the `int8` file, what the calibration samples say; `ranges` is how they say it, and
    `equalize` evens out the channels of the network before it is converted.
    """

    source: ModuleSource
    contract: Contract
    format: Format
    precisions: tuple[Precision, ...]
    output_directory: str
    parity: str
    calibration: str | None = None
    target: str = "host"
    input_dtype: IODType = "float32"
    output_dtype: IODType = "float32"
    learned: LearnedQuantization | None = None
    ranges: RangeEstimator = "min-max"
    percentile: float = 0.9999
    equalize: bool = False


@dataclass(frozen=True)
class Parity:
    """File against torch module on the same inputs. Relative means: divided by the largest absolute torch output."""

    samples: int
    max_absolute: float
    max_relative: float
    signal_to_noise_db: float
    argmax_agreement: float


@dataclass(frozen=True)
class Inspection:
    """What is inside a file, counted from the file itself.

    Shares are fractions: of the bytes of weights stored as int8, of the multiply-accumulates done on int8
    operands. `transposes` counts the operators that only move axes; `float_islands` the float regions between
    INT8 ones.
    """

    operators: dict[str, int]
    weight_bytes: int
    macs: int
    int8_weight_share: float
    int8_mac_share: float
    transposes: int
    float_islands: int


@dataclass(frozen=True)
class ConvertedFile:
    """A file made by a converter. `contract` is the final one: dtypes as stored in the file."""

    precision: Precision
    path: str
    contract: Contract
    parity: Parity
    inspection: Inspection
    scheme: str
    """The INT8 scheme: `u8s8 per-channel reduce-range qdq`, `s8s8 per-channel`, ...; `float` otherwise."""


@dataclass(frozen=True)
class ConversionAnswer:
    """What a converter process gives back when it ended well."""

    files: tuple[ConvertedFile, ...]
    peak_memory_bytes: int
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)


def learned_from_json(data: dict[str, Any]) -> LearnedQuantization:
    """The inverse of `dataclasses.asdict`. Raises KeyError or TypeError when the data is none."""
    return LearnedQuantization(
        activations=tuple(ActivationScale(**entry) for entry in data["activations"]),
        weights=tuple(WeightScale(entry["layer"], tuple(entry["scales"])) for entry in data["weights"]),
        weight_levels=int(data["weight_levels"]),
    )
