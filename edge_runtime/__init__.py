"""Runs a compressed model on the device it was made for. Needs numpy and one engine, nothing else."""

from edge_runtime.version import VERSION as __version__

__all__ = ["__version__"]
