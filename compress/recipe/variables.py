"""`${NAME}` and `${NAME:-default}` in a recipe, filled in from the environment; `$${NAME}` stays as text.

Before the YAML is parsed, every variable is replaced by private-use characters of the same length: so braces mean
nothing to YAML, columns stay true, and a variable in a comment is never looked up. After parsing they are filled in
scalar by scalar: a value from the environment is data and can add no structure to a recipe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from compress.recipe.nearest import nearest

_VARIABLE = re.compile(
    r"\$\$\{(?P<literal>[^}\n]*)\}|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<colon>:-(?P<default>[^}\n]*))?\}|\$\{"
)
_MOST = 1000
_FIRST, _PAD = 0xF0000, chr(0xFFFFD)
_PRIVATE = re.compile(f"[{chr(_FIRST)}-{_PAD}]")
_PLACEHOLDER = re.compile(f"([{chr(_FIRST)}-{chr(_FIRST + _MOST - 1)}]){_PAD}*")


class VariableError(ValueError):
    """A variable that cannot be filled in. `offset` is its position in the text, in characters."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class Variables:
    """The variables of one text. `masked` is the text with every variable hidden."""

    masked: str
    environment: Mapping[str, str]
    found: tuple[re.Match[str], ...] = field(repr=False)

    def fill(self, text: str) -> str:
        """A parsed scalar with its variables filled in. Raises VariableError."""
        return _PLACEHOLDER.sub(self._value, text)

    def written(self, text: str) -> str:
        """A parsed scalar as it was written, variables and all."""
        return _PLACEHOLDER.sub(lambda placeholder: (self._match(placeholder) or placeholder)[0], text)

    def _match(self, placeholder: re.Match[str]) -> re.Match[str] | None:
        index = ord(placeholder[1]) - _FIRST
        return self.found[index] if index < len(self.found) else None

    def _value(self, placeholder: re.Match[str]) -> str:
        match = self._match(placeholder)
        if match is None:  # an escape sequence of the YAML text made such a character
            return placeholder[0]
        if match["literal"] is not None:
            return f"${{{match['literal']}}}"
        name = match["name"]
        if name is None:
            raise VariableError("expected a variable like ${NAME} or ${NAME:-default}; $${ is text", match.start())
        value = self.environment.get(name)
        if match["colon"] is not None and not value:
            return str(match["default"])
        if value is None:
            raise VariableError(_undefined(name, self.environment), match.start())
        if not value.isprintable():
            raise VariableError(f"environment variable {name} holds characters that cannot be printed", match.start())
        return value


def find_variables(text: str, environment: Mapping[str, str]) -> Variables:
    """Hides the variables of a text. Raises VariableError for private-use characters and for too many variables."""
    private = _PRIVATE.search(text)
    if private:
        raise VariableError("private-use characters are not allowed in a recipe", private.start())
    found = tuple(_VARIABLE.finditer(text))
    if len(found) > _MOST:
        raise VariableError(f"expected at most {_MOST} variables", found[_MOST].start())
    parts, last = [], 0
    for index, match in enumerate(found):
        parts += [text[last : match.start()], chr(_FIRST + index), _PAD * (len(match[0]) - 1)]
        last = match.end()
    return Variables("".join([*parts, text[last:]]), environment, found)


def _undefined(name: str, environment: Mapping[str, str]) -> str:
    close = nearest(name, environment)
    hint = f"did you mean '{close}'?" if close else f"set it, or write ${{{name}:-default}}"
    return f"environment variable {name} is not set; {hint}"
