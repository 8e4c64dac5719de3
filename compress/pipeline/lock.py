"""The lock manifest of a run, `lock.json`: what has to be equal for the run to come out equal."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from compress.measurement.machine import processor
from compress.models.variant import Proof
from compress.pipeline.files import digest_of, write_atomically
from compress.pipeline.key import versions
from compress.pipeline.reached import Executed, Reached
from compress.recipe.schema import Recipe
from edge_runtime.version import VERSION

SCHEMA = 1
_ALWAYS = ("numpy", "pydantic")


@dataclass(frozen=True)
class Hardware:
    """Where a run ran. `accelerator` is None on a CPU; `threads` is what OMP_NUM_THREADS allows, if it is set."""

    processor: str
    architecture: str
    cores: int
    memory_bytes: int
    system: str
    accelerator: str | None
    threads: str | None


@dataclass(frozen=True)
class Manifest:
    """`choices` is what was chosen by looking or measuring: target, device, and what stages noted as `choices`."""

    version: str
    recipe: str
    recipe_digest: str
    text_digest: str
    seed: int
    data_digest: str | None
    stages: tuple[Executed, ...]
    versions: dict[str, str]
    hardware: Hardware
    choices: dict[str, Any]
    schema: int = SCHEMA


def manifest(recipe: Recipe, reached: Reached) -> Manifest:
    """The manifest of a run so far."""
    surroundings = reached.surroundings
    noted = {
        name: variant.notes["choices"]
        for name, variant in reached.variants.items()
        if not isinstance(variant, Proof) and "choices" in variant.notes
    }
    choices = {
        "device": reached.device,
        "target": surroundings.target.name if surroundings is not None else None,
        "stages": noted,
    }
    return Manifest(
        version=VERSION,
        recipe=recipe.name,
        recipe_digest=digest_of(recipe.canonical),
        text_digest=hashlib.sha256(recipe.text.encode()).hexdigest(),
        seed=recipe.seed,
        data_digest=surroundings.data_digest if surroundings is not None else None,
        stages=tuple(reached.executed),
        versions={**versions(_ALWAYS), **reached.versions, "python": platform.python_version()},
        hardware=hardware(),
        choices=choices,
    )


def hardware() -> Hardware:
    """This machine. An accelerator is named only when a stage has loaded the framework already."""
    return Hardware(
        processor=processor(),
        architecture=platform.machine(),
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        system=platform.platform(),
        accelerator=_accelerator(),
        threads=os.environ.get("OMP_NUM_THREADS"),
    )


def environment(manifest: Manifest) -> dict[str, Any]:
    """The part of a manifest that a report shows."""
    return {
        "edgepress": manifest.version,
        "versions": manifest.versions,
        "hardware": asdict(manifest.hardware),
        "choices": manifest.choices,
    }


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Writes `lock.json` atomically."""
    write_atomically(path, json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n")


def _accelerator() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name(0))
