"""Errors that end a command, and the exit codes they end it with. Importing this imports no framework."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    USAGE = 2
    STAGE_FAILED = 3
    GATE_FAILED = 4
    ENVIRONMENT = 5
    INTERRUPTED = 130


class EdgepressError(Exception):
    """An error with a message for the user; printed without a traceback unless `--debug` is given."""

    exit_code: ExitCode = ExitCode.STAGE_FAILED


class RecipeError(EdgepressError):
    """The recipe or the command line is wrong. Holds every problem found, one line each."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StageError(EdgepressError):
    """A stage could not do its work; the last line names the cause."""

    exit_code = ExitCode.STAGE_FAILED


class DataError(StageError):
    """The data is missing, empty, or too damaged to use."""


class EnvironmentProblem(EdgepressError):
    """A package is missing or clashes, the disk is full, or the store is out of reach."""

    exit_code = ExitCode.ENVIRONMENT


class RequirementNotMet(EdgepressError):
    """A stage did its work, and the result is not what the recipe requires of it."""

    exit_code = ExitCode.GATE_FAILED
