"""From whatever was raised to the error that ends the run: what failed, why, and with which exit code."""

from __future__ import annotations

import errno
from pathlib import Path

from compress.errors import EdgepressError, EnvironmentProblem, RequirementNotMet, StageError
from compress.pipeline.files import disk_is_full, full_disk_problem
from edge_runtime.errors import EdgeRuntimeError

_OUT_OF_REACH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE)


def as_failure(error: Exception, what: str, folder: Path) -> EdgepressError:
    """The error of `what` (a stage, the preparation of data) as one with an exit code; the cause comes last.

    `folder` is where the disk would be full. Anything that is not an error on purpose is named with its type.
    """
    if disk_is_full(error):
        return full_disk_problem(what, folder)
    if isinstance(error, EnvironmentProblem):
        return EnvironmentProblem(f"{what} failed: {error}")
    if isinstance(error, RequirementNotMet):
        return RequirementNotMet(f"{what}: {error}")
    if isinstance(error, OSError) and error.errno in _OUT_OF_REACH and _is_in(error.filename, folder):
        return EnvironmentProblem(f"{what} failed: {error.filename} cannot be used: {error.strerror}")
    if isinstance(error, ModuleNotFoundError):
        return EnvironmentProblem(
            f"{what} failed: the package '{error.name}' is not installed; the workstation's packages come with "
            "pip install 'edgepress[compress]'"
        )
    if isinstance(error, EdgepressError | EdgeRuntimeError) or _is_conversion_error(error):
        return StageError(f"{what} failed: {error}")
    if isinstance(error, MemoryError):
        return StageError(f"{what} failed: out of memory{f' ({error})' if str(error) else ''}")
    return StageError(f"{what} failed: {type(error).__name__}: {error}")


def as_environment_problem(error: OSError, what: str, folder: Path) -> EnvironmentProblem:
    """The error of `what`, for work on files that no stage does: whatever fails there, the surroundings have failed."""
    failure = as_failure(error, what, folder)
    return failure if isinstance(failure, EnvironmentProblem) else EnvironmentProblem(str(failure))


def _is_in(path: object, folder: Path) -> bool:
    return isinstance(path, str | Path) and Path(path).is_relative_to(folder)


def _is_conversion_error(error: Exception) -> bool:
    from export.errors import ConversionError

    return isinstance(error, ConversionError)
