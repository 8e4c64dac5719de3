"""The nearest valid name, for error messages. Importing this imports the standard library alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 12


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that looks most like `name`, or None when none is close."""
    by_lower = {candidate.lower(): candidate for candidate in valid}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def suggestion(name: str, valid: Iterable[str]) -> str:
    """What follows an error message: `; did you mean 'x'?`, or the valid names when none is close."""
    valid = sorted(valid)
    best = nearest(name, valid)
    if best is not None:
        return f"; did you mean '{best}'?"
    if not valid:
        return ""
    if len(valid) == 1:
        return f"; expected '{valid[0]}'"
    more = f", ... ({len(valid)} in all)" if len(valid) > _SHOWN else ""
    return f"; expected one of {', '.join(valid[:_SHOWN])}{more}"
