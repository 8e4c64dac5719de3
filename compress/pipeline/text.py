"""Figures and tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, columns aligned, a rule below the first row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def size(count: float) -> str:
    """`812 B`, `1.2 MiB`, in powers of 1024."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def shortened(names: Sequence[str], shown: int = 2) -> str:
    """The first names, and how many more there are."""
    more = f", +{len(names) - shown}" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
