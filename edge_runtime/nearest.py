"""The nearest valid name, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, valid: Iterable[str]) -> str:
    """What follows an error message: `; did you mean 'x'?`, or all valid names when none is close."""
    names = sorted(valid)
    by_lower = {candidate.lower(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if matches:
        return f"; did you mean '{by_lower[matches[0]]}'?"
    return f"; expected one of {', '.join(names)}" if names else ""
