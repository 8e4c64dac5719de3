"""`cache ls|verify|gc`: looks after the store."""

from __future__ import annotations

import argparse
import sys

from compress.cli.options import add_store
from compress.cli.parser import UsageError, choice
from compress.errors import ExitCode

SUMMARY = "look after the store: ls, verify, gc"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        type=choice("ls", "verify", "gc"),
        help="ls: list what is stored; verify: check it byte by byte; gc: remove what was not used for longest",
    )
    add_store(parser)
    parser.add_argument(
        "--max-size", metavar="SIZE", type=_size, help="for gc: how large the store may be, such as 4GiB; 0 empties it"
    )


def execute(arguments: argparse.Namespace) -> int:
    if (arguments.action == "gc") != (arguments.max_size is not None):
        raise UsageError("`cache gc` needs --max-size SIZE, such as 4GiB; the other actions take none")
    if arguments.store is not None and not arguments.store.is_dir():
        raise UsageError(f"{arguments.store}: there is no store here; a run makes one, .edgepress by default")
    return {"ls": _list, "verify": _verify, "gc": _collect}[arguments.action](arguments)


def _size(text: str) -> int:
    from compress.recipe.types import parse_bytes

    try:
        size = parse_bytes(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, got '{text}'") from None
    return int(size)


def _list(arguments: argparse.Namespace) -> int:
    from compress.pipeline.cache import list_entries, render_listing

    print(render_listing(list_entries(arguments.store)))
    return ExitCode.OK


def _verify(arguments: argparse.Namespace) -> int:
    from compress.pipeline.cache import verify

    found = verify(arguments.store)
    print(f"checked {found.results} results, {found.blobs} files, {found.checked_bytes} bytes")
    for damage in found.damaged:
        print(f"dropped: {damage}", file=sys.stderr)
    return ExitCode.ENVIRONMENT if found.damaged else ExitCode.OK


def _collect(arguments: argparse.Namespace) -> int:
    from compress.pipeline.cache import gc

    done = gc(arguments.max_size, arguments.store)
    for entry in done.removed:
        print(
            f"removed {entry.stage or entry.kind} {', '.join(entry.names)} ({entry.key[:12]}, {entry.size_bytes} bytes)"
        )
    print(f"freed {done.freed_bytes} bytes; the store has {done.size_bytes} bytes")
    if not done.reached:
        print(f"what is in use takes more than {arguments.max_size} bytes", file=sys.stderr)
    return ExitCode.OK if done.reached else ExitCode.ENVIRONMENT
