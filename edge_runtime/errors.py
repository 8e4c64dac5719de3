"""Errors that a user can act on. The message is one sentence; the command line prints it without a traceback."""

from __future__ import annotations

from typing import ClassVar


class EdgeRuntimeError(Exception):
    """Base of every error that the edge runtime raises on purpose. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 3


class UsageError(EdgeRuntimeError):
    """The command line, an input file or an argument is wrong."""

    exit_code = 2


class ModelFileError(EdgeRuntimeError):
    """The model file is missing, truncated, or not what its name says."""


class ModelFileMissingError(ModelFileError, UsageError):
    """There is no model file at the path."""


class ContractError(EdgeRuntimeError):
    """The model file, its contract and the data given to it disagree."""


class EngineError(EdgeRuntimeError):
    """The engine is not known, or failed while it loaded or ran the model."""


class UnknownEngineError(EngineError, UsageError):
    """No engine has this name; the message gives the nearest one."""


class MissingPackageError(EdgeRuntimeError):
    """A package that is needed is not installed; the message names what to install."""

    exit_code = 5


class EngineMissingError(EngineError, MissingPackageError):
    """The engine's package is not installed; the message names the extra to install."""
