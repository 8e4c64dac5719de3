"""Looks after the store: `edgepress cache ls`, `verify` and `gc`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Entry:
    """One thing in the store that can go on its own.

    `result`: what a stage gave; `work`: state of an attempt that did not end; `shared`: a by-product such as prepared
    data. `size_bytes` counts blobs shared with other results in full. `last_used` is seconds since the epoch.
    """

    kind: Literal["result", "work", "shared"]
    key: str
    stage: str
    names: tuple[str, ...]
    size_bytes: int
    created: float
    last_used: float
    in_use: bool


@dataclass(frozen=True)
class Listing:
    """Entries, most recently used first. `size_bytes` is the store on disk, shared blobs counted once."""

    store: Path
    entries: tuple[Entry, ...]
    size_bytes: int


@dataclass(frozen=True)
class Verification:
    """`damaged` describes each damaged result in a sentence; they have been dropped and will be computed again."""

    results: int
    blobs: int
    checked_bytes: int
    damaged: tuple[str, ...]


@dataclass(frozen=True)
class Collection:
    """What `gc` removed. `size_bytes` is the store afterwards; `reached` is False when what is in use is larger."""

    removed: tuple[Entry, ...]
    freed_bytes: int
    size_bytes: int
    reached: bool


def list_entries(store: Path | None = None) -> Listing:
    """What the store holds. Touches nothing."""
    raise NotImplementedError


def verify(store: Path | None = None) -> Verification:
    """Checks every blob and result by digest, and drops what is damaged."""
    raise NotImplementedError


def gc(max_size: int, store: Path | None = None) -> Collection:
    """Removes least recently used entries until the store has at most `max_size` bytes.

    Nothing that a live run uses is removed. Leftovers of killed commits go in any case.
    """
    raise NotImplementedError


def render_listing(listing: Listing) -> str:
    """The listing as a table for a terminal."""
    raise NotImplementedError
