"""Where something is wrong in a recipe, and how that is printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]
"""Where a value sits in the recipe: `("stages", 0, "epochs")`."""


@dataclass(frozen=True, order=True)
class Place:
    """A position in a text. `line` and `column` count from 1.

    For a value that `--set` gave, `line` is 0, and `column` counts the overrides.
    """

    line: int
    column: int
    origin: str
    """The file's name, or the text of the override."""

    def __str__(self) -> str:
        return f"{self.origin}:{self.line}:{self.column}" if self.line else self.origin


@dataclass(frozen=True)
class Problem:
    """Something wrong at a key path. `at_key`: the key itself is wrong, not the value."""

    path: KeyPath
    message: str
    at_key: bool = False


@dataclass(frozen=True)
class PlacedProblem:
    """A problem with its position, ready to print as `file:line:column: message`."""

    place: Place
    message: str

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.message}")


def printable(text: str) -> str:
    """Keeps a message on one line and out of the terminal's control codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def lines(problems: Iterable[PlacedProblem]) -> list[str]:
    """Every problem once, in the order of the file, then those of overrides."""
    ordered = sorted(problems, key=lambda p: (p.place.line == 0, p.place.line, p.place.column))
    return list(dict.fromkeys(map(str, ordered)))
