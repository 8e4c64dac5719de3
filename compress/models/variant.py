"""The immutable results of stages, as they travel between stages. Everything here is JSON and paths, no tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.contract import Contract
from export.request import Format, Inspection, Parity, Precision


@dataclass(frozen=True)
class TorchVariant:
    """A torch model: `directory` holds architecture.json and weights.safetensors.

    `digest` is a SHA-256 over those two files. `validation` holds the metrics on the validation split, as fractions.
    `notes` is what the stage wants to see in the report (epochs run, edits made, what could not be reached).
    """

    name: str
    digest: str
    directory: Path
    contract: Contract
    parameters: int
    macs: int
    lineage: tuple[str, ...]
    validation: dict[str, float]
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FileVariant:
    """An exported file. Its contract lies beside it as `<stem>.contract.json`. `digest` is the SHA-256 of `path`."""

    name: str
    digest: str
    path: Path
    format: Format
    precision: Precision
    contract: Contract
    parameters: int
    macs: int
    lineage: tuple[str, ...]
    parent: TorchVariant
    parity: Parity
    inspection: Inspection
    scheme: str
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """What the benchmark stage measured: `measurements.json` (one entry a file variant, the `variants` of report.json)

    and `samples.npz` (raw latencies and per-sample correctness, by variant name)."""

    name: str
    digest: str
    directory: Path
    lineage: tuple[str, ...]


Variant = TorchVariant | FileVariant | Proof
