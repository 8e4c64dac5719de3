"""The full state of a training run on disk, so that a killed run continues as if nothing had happened.

One file, `training.pt`, written to a temporary name, synced and moved into place, and read with `weights_only=True`,
which runs no code from the file. It holds a fingerprint of what was asked for: state of another run is ignored.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from compress.errors import EnvironmentProblem
from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch import nn

FILE = "training.pt"
VERSION = 1
_SHARE_OF_TIME = 0.01
"""Writes at the ends of short epochs are left out when they would take more of the time than this."""


class Checkpoint:
    """Reads and writes the state in `work`. `every` is in seconds."""

    def __init__(self, work: Path, fingerprint: str, every: float) -> None:
        self._path = work / FILE
        self._fingerprint = fingerprint
        self._every = every
        self._written = monotonic()
        self._cost = 0.0

    def read(self) -> dict[str, Any] | None:
        """The content of the last write for this fingerprint; None when there is none, or it is damaged."""
        import torch

        try:
            stored = torch.load(self._path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except Exception:  # a damaged file raises what zip, pickle and torch raise; training starts anew
            return None
        fits = isinstance(stored, dict) and stored.get("version") == VERSION
        return stored if fits and stored["fingerprint"] == self._fingerprint else None

    def due(self, epoch_ended: bool = False) -> bool:
        since = monotonic() - self._written
        return since >= self._every or (epoch_ended and since * _SHARE_OF_TIME >= self._cost)

    def write(self, content: dict[str, Any]) -> None:
        """Raises EnvironmentProblem when the disk is full or the folder cannot be written."""
        import torch

        started = monotonic()
        temporary = self._path.with_name(f".{FILE}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                torch.save({"version": VERSION, "fingerprint": self._fingerprint, **content}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except (OSError, RuntimeError) as error:  # torch's zip writer turns a failed write into RuntimeError
            temporary.unlink(missing_ok=True)
            full = getattr(error, "errno", None) == errno.ENOSPC or "PytorchStreamWriter" in str(error)
            cause = "the disk is full" if full else str(error)
            raise EnvironmentProblem(f"training state cannot be written to {self._path.parent}: {cause}") from error
        self._written = monotonic()
        self._cost = self._written - started


def fingerprint(model: nn.Module, settings: TrainingSettings, seed: int, device: str, data_digest: str) -> str:
    """SHA-256 over settings, seed, data, kind of device, torch's version and the weights that training starts from."""
    import torch

    asked = {
        "settings": settings.model_dump(mode="json", exclude={"checkpoint_every"}),
        "seed": seed,
        "device": torch.device(device).type,
        "data": data_digest,
        "torch": torch.__version__,
    }
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode())
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
