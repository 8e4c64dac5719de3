"""What a conversion can end with, other than files. Importing this imports no framework."""

from __future__ import annotations

from typing import Literal

FailureKind = Literal[
    "unsupported-operator",
    "killed",
    "timeout",
    "disk-full",
    "calibration",
    "parity",
    "not-int8",
    "bad-request",
    "failed",
]


class ConversionError(Exception):
    """A model could not be converted. The last line of the message is the cause.

    `kind` says what went wrong without parsing the message: `disk-full`, for instance, is no fault of the model.
    """

    def __init__(self, message: str, kind: FailureKind = "failed") -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
