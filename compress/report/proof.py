"""Reading and writing a proof: `measurements.json` and the raw samples beside it in `samples.npz`.

Everything that a report, a gate or a verdict says about two files is computed from these samples, so that any two
measured files can be compared, paired, after the run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from pydantic import ValidationError

from compress.errors import StageError
from compress.report.model import Measurement, Measurements
from edge_runtime.files import write_atomically

if TYPE_CHECKING:  # `plan` reads the names of this package without numpy
    import numpy as np
    from numpy.typing import NDArray

MEASUREMENTS = "measurements.json"
SAMPLES = "samples.npz"


@dataclass(frozen=True)
class Samples:
    """Raw samples of one proof.

    `targets` (N,) int64 are the classes of the test samples; `predicted[key]` (N,) int64 is what a file answered on the
    same samples in the same order (-1: no finite answer), `torch[name]` what a torch model did; `latency_ms[key]`
    (rounds, repeats) float64 has row r from round r of the one interleaved run.
    """

    targets: NDArray[np.int64]
    predicted: Mapping[str, NDArray[np.int64]]
    torch: Mapping[str, NDArray[np.int64]]
    latency_ms: Mapping[str, NDArray[np.float64]]

    def correct(self, key: str) -> NDArray[np.bool_]:
        """(N,) whether the file's answer is the target."""
        return self.predicted[key] == self.targets


@dataclass(frozen=True)
class MeasuredProof:
    """What one benchmark stage measured, with the samples that it follows from."""

    measurements: Measurements
    samples: Samples

    def find(self, name: str, engine: str | None = None) -> str | None:
        """Key of the variant `name` on `engine` (default: its default engine), or None when it was not measured.

        `name` may be a key itself (`student/onnx-int8@openvino`).
        """
        variants = self.measurements.variants
        if engine is None and name in variants:
            return name
        for key, measurement in variants.items():
            if measurement.name == name and (
                measurement.engine == engine if engine is not None else measurement.default_engine
            ):
                return key
        return None

    def __getitem__(self, key: str) -> Measurement:
        return self.measurements.variants[key]


def float_file(proof: MeasuredProof, torch: str, format: str, engine: str) -> str | None:
    """Key of the fp32 file of a torch variant in a format on an engine, or None when it was not measured."""
    for key, measurement in proof.measurements.variants.items():
        if (measurement.torch, measurement.format, measurement.engine) == (torch, format, engine) and (
            measurement.precision == "fp32"
        ):
            return key
    return None


def write_proof(proof: MeasuredProof, directory: Path) -> None:
    """Writes both files into `directory`, each atomically. The same proof gives the same bytes."""
    import numpy as np

    arrays: dict[str, NDArray[Any]] = {"targets": proof.samples.targets}
    arrays |= {f"predicted/{key}": values for key, values in proof.samples.predicted.items()}
    arrays |= {f"torch/{name}": values for name, values in proof.samples.torch.items()}
    arrays |= {f"latency_ms/{key}": values for key, values in proof.samples.latency_ms.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(directory / SAMPLES, buffer.getvalue())
    write_text(directory / MEASUREMENTS, proof.measurements.model_dump_json(indent=1) + "\n")


def read_proof(directory: Path) -> MeasuredProof:
    """Reads what `write_proof` wrote. Raises StageError when a file is missing or damaged."""
    import numpy as np

    try:
        text = (directory / MEASUREMENTS).read_text(encoding="utf-8")
        measurements = Measurements.model_validate(json.loads(text))
        with np.load(directory / SAMPLES, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        samples = Samples(
            targets=arrays["targets"],
            predicted=_under(arrays, "predicted/"),
            torch=_under(arrays, "torch/"),
            latency_ms=_under(arrays, "latency_ms/"),
        )
    except (OSError, ValueError, KeyError, BadZipFile, ValidationError) as error:
        raise StageError(f"the proof in {directory} cannot be read: {error}") from error
    return MeasuredProof(measurements, samples)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text atomically."""
    write_atomically(path, text.encode("utf-8"))


def _under(arrays: Mapping[str, NDArray], prefix: str) -> dict[str, NDArray]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
