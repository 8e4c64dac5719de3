"""The pages of the documentation as data: their fenced blocks, and what the snippets in them mean."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = tuple(sorted(path.name for path in DOCS.glob("*.md")))
README = "../README.md"
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^(?=[a-z]+:)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block. `info` are the words behind the fence, `line` counts from 1."""

    page: str
    line: int
    info: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a console block, and what the page says that it prints."""

    page: str
    line: int
    words: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {' '.join(self.words)}"


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", read(page))


def blocks(page: str, *info: str) -> list[Block]:
    """The page's blocks whose first words are these."""
    text = read(page)
    found = [
        Block(page, text.count("\n", 0, match.start()) + 1, tuple(match["info"].split()), match["text"])
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if block.info[: len(info)] == info]


def commands(page: str) -> list[Command]:
    """Lines that start with `$ `, without variables in front and redirections behind; other lines are output.

    In a block without `$ ` every line is a command.
    """
    found: list[Command] = []
    for block in blocks(page, "console"):
        prompt = "$ " if "$ " in block.text else ""
        for offset, line in enumerate(block.text.splitlines(), start=1):
            if line.startswith(prompt):
                words = shlex.split(line.removeprefix(prompt))
                while re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words.pop(0)
                if ">" in words:
                    words = words[: words.index(">")]
                found.append(Command(page, block.line + offset, tuple(words), ""))
            else:
                last = found[-1]
                found[-1] = Command(last.page, last.line, last.words, f"{last.output}{line}\n")
    return found


def whole_recipe(snippet: str, base: str) -> str:
    """A snippet as a whole recipe: sections that it lacks are those of `base`, but for the gates of other stages."""
    given, rest = _sections(snippet), _sections(base)
    if "stages" in given:
        rest.pop("gates", None)
    return "".join((rest | given).values())


def _sections(recipe: str) -> dict[str, str]:
    """The text of each top-level key, comments before the first one left out."""
    parts = [part for part in _SECTION.split(recipe) if part and not part.startswith("#")]
    return {part.partition(":")[0]: part if part.endswith("\n") else f"{part}\n" for part in parts}
