"""What an unquoted word in a recipe means: the core schema of YAML 1.2, without YAML 1.1's surprises.

`2e-3` is a number; `yes`, `no`, `on`, `off` are text; `1:30` is text and not 90; a number with a leading zero is
refused, because YAML 1.1 reads it as octal and YAML 1.2 as decimal.
"""

from __future__ import annotations

import math
import re

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?\d+(_\d+)*")
_RADIX = re.compile(r"0(x[0-9a-fA-F]+|o[0-7]+|b[01]+)")
_FLOAT = re.compile(r"[-+]?(\d+(_\d+)*\.?\d*|\.\d+)([eE][-+]?\d+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+(\.\d*)?([eE][-+]?\d+)?")
_MOST_DIGITS = 400

Scalar = None | bool | int | float | str


class ScalarError(ValueError):
    """An unquoted word that has no single meaning; the message says what to write."""


def resolve_plain(text: str) -> Scalar:
    """The value of an unquoted scalar. Raises ScalarError for numbers that are ambiguous, endless or too large."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _NOT_FINITE.fullmatch(text):
        raise ScalarError(f"expected a finite number, got {text}")
    if not (_FLOAT.fullmatch(text) or _RADIX.fullmatch(text)):
        return text
    if len(text) > _MOST_DIGITS:
        raise ScalarError("this number is too long")
    if _LEADING_ZERO.fullmatch(text):
        raise ScalarError(
            f"numbers with leading zeros are ambiguous; write {_without_zeros(text)}, or quote it: '{text}'"
        )
    return _number(text)


def _number(text: str) -> int | float:
    if _RADIX.fullmatch(text) or _INTEGER.fullmatch(text):
        value = int(text.replace("_", ""), 0)
        if not -(2**63) <= value < 2**63:
            raise ScalarError("expected a whole number of at most 64 bits")
        return value
    number = float(text.replace("_", ""))
    if not math.isfinite(number):
        raise ScalarError(f"expected a finite number, got {text}")
    return number


def _without_zeros(text: str) -> str:
    sign = text[0] if text[0] in "+-" else ""
    digits = text[len(sign) :].lstrip("0_")
    return sign + (digits if digits[:1].isdigit() else "0" + digits)
