"""Layers that keep their weights: found by module path before training starts, restored after it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from compress.errors import StageError

if TYPE_CHECKING:
    from torch import nn


def find_modules(model: nn.Module, patterns: Sequence[str]) -> tuple[str, ...]:
    """Paths of the modules and parameters that the patterns match, in the model's order; `*` matches dots too.

    Raises StageError that names every pattern without a match, each with the paths that come near.
    """
    paths = [name for name, _ in model.named_modules() if name] + [name for name, _ in model.named_parameters()]
    found: set[str] = set()
    problems = []
    for pattern in patterns:
        matches = [path for path in paths if fnmatchcase(path, pattern)]
        found.update(matches)
        if not matches:
            near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.4) or paths[:5]
            problems.append(f"no module matches '{pattern}'; near: {', '.join(near)}")
    if problems:
        raise StageError("\n".join(problems))
    return tuple(path for path in paths if path in found)


@contextmanager
def frozen(model: nn.Module, patterns: Sequence[str]) -> Iterator[tuple[nn.Module, ...]]:
    """Inside, parameters below the matches take no gradient. Yields the normalization layers among them, which have
    to stay in evaluation mode. What was trainable before is trainable again afterwards."""
    from torch import nn

    paths = find_modules(model, patterns)

    def covered(name: str) -> bool:
        return any(name == path or name.startswith(f"{path}.") for path in paths)

    changed = [p for name, p in model.named_parameters() if covered(name) and p.requires_grad]
    norms = tuple(
        module
        for name, module in model.named_modules()
        if covered(name) and isinstance(module, nn.modules.batchnorm._NormBase)
    )
    for parameter in changed:
        parameter.requires_grad_(False)
    try:
        yield norms
    finally:
        for parameter in changed:
            parameter.requires_grad_(True)


def training_mode(model: nn.Module, norms: Sequence[nn.Module]) -> None:
    """Training mode for all but the frozen normalization layers, whose running statistics must not move."""
    model.train()
    for norm in norms:
        norm.eval()
