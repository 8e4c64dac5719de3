"""Parsing of command lines with errors like those of recipes: what was expected, and the nearest valid name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

from compress.errors import EdgepressError, ExitCode


class Command(Protocol):
    """A module of this package."""

    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...
    def execute(self, arguments: argparse.Namespace) -> int: ...


class UsageError(EdgepressError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class Parser(argparse.ArgumentParser):
    """argparse that raises UsageError, and takes no abbreviations: they break when an option is added."""

    def __init__(self, **options: Any) -> None:
        self.known_options: list[str] = []
        super().__init__(allow_abbrev=False, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        self.known_options += [name for name in names if name.startswith("-")]
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.format_usage().rstrip()}\n{message}")


def choice(*valid: str) -> Callable[[str], str]:
    """An argument type that takes one of a few words."""

    def parse(text: str) -> str:
        if text not in valid:
            raise argparse.ArgumentTypeError(f"got '{text}'{_suggestion(text, valid)}")
        return text

    return parse


def parse(program: Parser, commands: dict[str, Parser], arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed command line. Raises UsageError; prints help or version and raises SystemExit when asked to."""
    word = next((argument for argument in arguments if not argument.startswith("-")), None)
    if word is not None and word not in commands:
        program.error(f"unknown command '{word}'{_suggestion(word, commands)}")
    parser = program if word is None else commands[word]
    # A misspelt option comes first: argparse would complain about what it seems to lack instead.
    for argument in arguments[: arguments.index("--")] if "--" in arguments else arguments:
        option = argument.partition("=")[0]
        if option.startswith("-") and option not in {*program.known_options, *parser.known_options}:
            parser.error(f"unknown option '{option}'{_suggestion(option, parser.known_options)}")
    parsed, rest = program.parse_known_args(arguments)
    if rest:
        parser.error(f"unexpected argument '{rest[0]}'")
    return parsed


def _suggestion(word: str, valid: Iterable[str]) -> str:
    # difflib costs a few milliseconds, and most command lines are right.
    from compress.recipe.nearest import suggestion

    return suggestion(word, valid)
