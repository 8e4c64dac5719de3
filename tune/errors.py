"""Errors that a user can act on. The message is printed without a traceback; `exit_code` ends the command.

`TrialEnded` is no error: it carries the end of a trial out of an objective, through code that catches exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class TuneError(Exception):
    """Base of every error that this package raises on purpose."""

    exit_code: ClassVar[int] = 3


class UsageError(TuneError):
    """A command line, a space or a study's settings are wrong. Holds every problem found, one line each."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class StudyChanged(UsageError):
    """A study of this name exists and searches something else. Its trials are never mixed with others."""


class StorageUnreachable(TuneError):
    """The storage did not answer, not even when it was asked again. What it has recorded is safe."""

    exit_code = 5


class MissingPackage(TuneError):
    """A package that is needed is not installed; the message names what to install."""

    exit_code = 5


class EveryTrialFailed(TuneError):
    """No trial gave a value. The last line is the cause of the first failure."""


class TrialEnded(BaseException):
    """Base of what ends a trial from inside of its objective, at a report.

    Not an Exception, like KeyboardInterrupt: code between the objective and the report (a training loop, a runner of
    stages) must neither take it for a failure nor record it as one.
    """


class TrialCut(TrialEnded):
    """The pruner has judged that the trial is not worth its remaining steps."""


class TrialLost(TrialEnded):
    """Another worker has taken this trial for dead and goes on with it; what this one finds does not count."""
