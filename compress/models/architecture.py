"""A network as data: who builds it, and which channels were cut out of it since. Weights live beside it.

A variant's folder holds `architecture.json` (this) and `weights.safetensors`. Nothing is pickled: loading calls the
builder and replays the edits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from export.request import LearnedQuantization


@dataclass(frozen=True)
class BuilderReference:
    """Names a registered model source and its JSON arguments, e.g. `torchvision`, {"name": "resnet18", ...}."""

    source: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ChannelEdit:
    """Keeps these indices along one dimension of one module's parameters, in this order, and drops the rest.

    `out` and `in` are the channel axes of a layer (normalizations have `out` alone). A bare parameter is named by its
    own path, and `dimension` is then the axis as a digit.
    """

    module: str
    dimension: Literal["out", "in", "0", "1", "2", "3"]
    keep: tuple[int, ...]


@dataclass(frozen=True)
class Architecture:
    builder: BuilderReference
    edits: tuple[ChannelEdit, ...] = ()
    quantization: LearnedQuantization | None = None
    """The scales that go with these very weights; gone as soon as the weights change."""
