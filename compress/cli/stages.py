"""`stages`: what a recipe can name, with every key."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from compress.cli.parser import choice

if TYPE_CHECKING:
    from compress.recipe.describe import Entry

SUMMARY = "list what a recipe can name: stages, tasks, sources, gates, and their keys"
_HEAD = """# What a recipe can name

Made from the settings models by `python -m compress stages --format markdown > docs/stages.md`; a test keeps this page
equal to what that prints. `python -m compress stages NAME` shows one entry. How keys are used: [guide](guide.md)."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="show this one only, with what each key means")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=choice("text", "markdown"),
        default="text",
        help="text or markdown; markdown is the table of the documentation (default: text)",
    )


def execute(arguments: argparse.Namespace) -> int:
    from compress.pipeline.registry import installed_registry
    from compress.recipe.describe import describe, find

    entries = describe(installed_registry())
    if arguments.name is not None:
        entries = find(entries, arguments.name)
    if arguments.format == "markdown":
        head = [_HEAD] if arguments.name is None else []
        print("\n\n".join([*head, *map(_markdown, entries)]))
    elif arguments.name is not None:
        print("\n\n".join(map(_page, entries)))
    else:
        print(_overview(entries))
    return 0


def _overview(entries: tuple[Entry, ...]) -> str:
    width = max(len(entry.name) for entry in entries)
    lines: list[str] = []
    for position, entry in enumerate(entries):
        if position == 0 or entry.kind != entries[position - 1].kind:
            lines += ["", f"{entry.kind}:"] if lines else [f"{entry.kind}:"]
        lines.append(f"  {entry.name:{width}}  {entry.summary}".rstrip())
        names = [key.name for key in entry.keys if "." not in key.name]
        lines += [f"  {'':{width}}  keys: {', '.join(names)}"] if names else []
    return "\n".join([*lines, "", "`stages NAME` shows every key of one of them."])


def _page(entry: Entry) -> str:
    lines = [f"{entry.kind} {entry.name}", entry.summary, ""]
    for key in entry.keys:
        default = "required" if key.default is None else f"default {key.default}"
        lines += [f"  {key.name}: {key.type} ({default})", f"      {key.description}"]
    return "\n".join(line for line in lines if line.strip() or not line)


def _markdown(entry: Entry) -> str:
    lines = [f"### {entry.kind}: `{entry.name}`", "", entry.summary, ""]
    if entry.keys:
        lines += ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key in entry.keys:
        default = "required" if key.default is None else f"`{key.default}`"
        lines.append(f"| `{key.name}` | {_cell(key.type)} | {_cell(default)} | {_cell(key.description)} |")
    return "\n".join(lines).rstrip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
