"""Errors that a user can act on. The message is one sentence; the command line prints it without a traceback."""


class EdgeRuntimeError(Exception):
    """Base of every error that the edge runtime raises on purpose."""


class ModelFileError(EdgeRuntimeError):
    """The model file is missing, truncated, or not what its name says."""


class ContractError(EdgeRuntimeError):
    """The model file, its contract and the data given to it disagree."""


class EngineError(EdgeRuntimeError):
    """The engine is not installed, or failed while it loaded or ran the model."""
