"""A torch variant on disk: `architecture.json` and `weights.safetensors` in one folder, nothing pickled.

`load_model` is also the factory by which converter processes get the module.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.errors import StageError
from compress.models.architecture import Architecture, BuilderReference, ChannelEdit
from compress.models.builders import build
from compress.models.edits import apply_edits
from compress.models.weights import load_state, read_weights, write_weights
from export.request import learned_from_json

if TYPE_CHECKING:
    from torch import nn

ARCHITECTURE = "architecture.json"
WEIGHTS = "weights.safetensors"
_SCHEMA = 1


def save_model(module: nn.Module, architecture: Architecture, directory: str | Path) -> str:
    """Writes both files atomically and returns the digest: SHA-256 over them. Equal weights give equal bytes."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(module, folder / WEIGHTS)
    content = {"schema": _SCHEMA, **_to_json(architecture), "weights_sha256": _sha256(folder / WEIGHTS)}
    content["sha256"] = _checksum(content)
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    _write_atomically(folder / ARCHITECTURE, text.encode())
    return digest(folder)


def load_model(directory: str | Path, verify: str | None = None) -> nn.Module:
    """Builds the network, replays its edits, loads its weights. In evaluation mode, on the CPU.

    Raises StageError when a file is missing or was changed after it was written, when the digest is not `verify`, or
    when the builder no longer gives the network that was saved. The caller's random state is left alone.
    """
    folder = Path(directory)
    architecture = read_architecture(folder)
    if verify is not None and digest(folder) != verify:
        raise StageError(f"{folder} does not have the digest {verify}: it was changed after it was made")
    module = rebuild(architecture)
    load_state(module, read_weights(folder / WEIGHTS), folder / WEIGHTS)
    return module.eval()


def rebuild(architecture: Architecture) -> nn.Module:
    """The network with its edits and fresh weights. The caller's random state is left alone."""
    import torch

    with torch.random.fork_rng(devices=[]):
        module = build(architecture.builder)
    apply_edits(module, architecture.edits)
    return module


def read_architecture(directory: str | Path) -> Architecture:
    """Raises StageError when a file is missing, or a byte of either is not as it was written."""
    folder = Path(directory)
    try:
        content = json.loads((folder / ARCHITECTURE).read_bytes())
        checksum = content.pop("sha256")
        weights = _sha256(folder / WEIGHTS)
    except FileNotFoundError as error:
        raise StageError(f"{folder} is not a saved variant: {Path(error.filename).name} is missing") from None
    except (ValueError, KeyError, AttributeError):
        raise StageError(f"{folder / ARCHITECTURE} is damaged: it is not the JSON that was written") from None
    if checksum != _checksum(content):
        raise StageError(f"{folder / ARCHITECTURE} was changed after it was written")
    if content.get("schema") != _SCHEMA:
        raise StageError(f"{folder / ARCHITECTURE} has schema {content.get('schema')}; this version reads {_SCHEMA}")
    if weights != content["weights_sha256"]:
        raise StageError(f"{folder / WEIGHTS} was changed after it was written, or does not belong here")
    return _from_json(content)


def digest(directory: str | Path) -> str:
    """SHA-256 over the two files of a variant, as TorchVariant.digest has it."""
    folder = Path(directory)
    text = "\n".join(f"{name} {_sha256(folder / name)}" for name in (ARCHITECTURE, WEIGHTS))
    return hashlib.sha256(text.encode()).hexdigest()


def _to_json(architecture: Architecture) -> dict[str, Any]:
    content: dict[str, Any] = {
        "builder": {"source": architecture.builder.source, "arguments": architecture.builder.arguments},
        "edits": [[edit.module, edit.dimension, list(edit.keep)] for edit in architecture.edits],
    }
    if architecture.quantization is not None:
        content["quantization"] = asdict(architecture.quantization)
    return content


def _from_json(content: dict[str, Any]) -> Architecture:
    return Architecture(
        builder=BuilderReference(content["builder"]["source"], content["builder"]["arguments"]),
        edits=tuple(ChannelEdit(module, dimension, tuple(keep)) for module, dimension, keep in content["edits"]),
        quantization=learned_from_json(content["quantization"]) if "quantization" in content else None,
    )


def _checksum(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
