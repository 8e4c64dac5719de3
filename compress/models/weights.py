"""Weights in and out of networks: safetensors, or torch files that hold tensors and no code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.errors import StageError
from compress.recipe.nearest import nearest

if TYPE_CHECKING:
    from torch import Tensor, nn

_SHOWN = 8
_NESTED = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts commonly keep the weights inside a checkpoint."""


def write_weights(module: nn.Module, path: Path) -> None:
    """Writes all parameters and persistent buffers as safetensors, atomically, sorted by name."""
    from safetensors.torch import save

    # Copies, because safetensors refuses tensors that share memory (tied weights are stored under each name).
    state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in sorted(module.state_dict().items())}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(save(state))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors by name, from `.safetensors` or from a file of `torch.save` read with `weights_only=True`.

    Weights that a checkpoint keeps under `state_dict`, `model_state_dict` or `model` are found, and the prefix
    `module.` of data-parallel training is taken off. Raises StageError when the file is missing, truncated, holds
    pickled code, or holds no tensors.
    """
    if not path.is_file():
        raise StageError(f"weights file {path} does not exist")
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    for key in _NESTED:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    return _tensors(content, path)


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise StageError(f"{path} is not a readable safetensors file: {error}") from None


def _read_torch(path: Path) -> Any:
    import pickle

    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        code = next((line.strip() for line in str(error).splitlines() if "GLOBAL" in line), None)
        found = f"pickled code ({code})" if code else "something that is no tensor, or is damaged,"
        raise StageError(
            f"{path} holds {found} and is not loaded; "
            "save the tensors alone: torch.save(model.state_dict(), path), or safetensors"
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        cause = str(error).splitlines()[0] if str(error) else "it ends too early"
        raise StageError(f"{path} is not a readable torch file: {cause}") from None


def _tensors(content: Any, path: Path) -> dict[str, Tensor]:
    import torch

    if not isinstance(content, Mapping) or not content:
        raise StageError(f"{path} holds no weights: expected tensors by name, found {type(content).__name__}")
    wrong = [str(name) for name, value in content.items() if not isinstance(value, torch.Tensor)]
    if wrong:
        raise StageError(f"{path} holds no weights: expected tensors by name, but {_listed(wrong)} is no tensor")
    if all(name.startswith("module.") for name in content):
        return {name.removeprefix("module."): tensor for name, tensor in content.items()}
    return dict(content)


def load_state(module: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    """Copies `state` into the module; `path` is for messages.

    Raises StageError that lists every missing name, unexpected name (with the nearest one of the network) and
    differing shape.
    """
    wanted = module.state_dict()
    missing = [name for name in wanted if name not in state]
    unexpected = sorted(name for name in state if name not in wanted)
    shapes = [name for name in wanted if name in state and wanted[name].shape != state[name].shape]
    if missing or unexpected or shapes:
        problems = [f"the weights in {path} do not fit the network:"]
        if missing:
            problems.append(f"  missing: {_listed(missing)}")
        if unexpected:
            problems.append(f"  unexpected: {_listed(_with_nearest(name, missing) for name in unexpected)}")
        for name in shapes[:_SHOWN]:
            problems.append(f"  {name}: expected {tuple(wanted[name].shape)}, found {tuple(state[name].shape)}")
        if len(shapes) > _SHOWN:
            problems.append(f"  and {len(shapes) - _SHOWN} more shapes that differ")
        raise StageError("\n".join(problems))
    module.load_state_dict(dict(state))


def _with_nearest(name: str, candidates: Iterable[str]) -> str:
    best = nearest(name, candidates)
    return f"{name} (nearest: {best})" if best else name


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
