"""Edgepress: one recipe from a PyTorch model to a small, fast, proven file for the edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edge_runtime.version import VERSION as __version__

if TYPE_CHECKING:
    from compress.pipeline.run import run

__all__ = ["__version__", "run"]


def __getattr__(name: str) -> object:
    # `compress --help` must import no framework, so the Python API is found on first use.
    if name == "run":
        from compress.pipeline.run import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
