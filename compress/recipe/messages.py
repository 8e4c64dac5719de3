"""Validation errors of settings models as plain sentences: what was expected, what came, the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from compress.recipe.fields import Sources, keys_at
from compress.recipe.nearest import nearest, suggestion
from compress.recipe.problems import KeyPath, Problem

_LONGEST = 60
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_YAML_1_1_BOOLEANS = frozenset({"yes", "no", "on", "off", "y", "n"})

_EXPECTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "int_type": lambda context: "a whole number",
    "int_from_float": lambda context: "a whole number",
    "int_parsing": lambda context: "a whole number",
    "float_type": lambda context: "a number",
    "float_parsing": lambda context: "a number",
    "finite_number": lambda context: "a finite number",
    "bool_type": lambda context: "true or false",
    "bool_parsing": lambda context: "true or false",
    "string_type": lambda context: "text",
    "string_too_short": lambda context: "text that is not empty",
    "string_too_long": lambda context: f"text of at most {context['max_length']} characters",
    "string_pattern_mismatch": lambda context: f"text of the form {context['pattern']}",
    "literal_error": lambda context: _alternatives(context["expected"]),
    "enum": lambda context: _alternatives(context["expected"]),
    "greater_than": lambda context: f"a number above {context['gt']:g}",
    "greater_than_equal": lambda context: f"a number of at least {context['ge']:g}",
    "less_than": lambda context: f"a number below {context['lt']:g}",
    "less_than_equal": lambda context: f"a number of at most {context['le']:g}",
    "multiple_of": lambda context: f"a multiple of {context['multiple_of']:g}",
    "too_short": lambda context: f"at least {context['min_length']} in the list",
    "too_long": lambda context: f"at most {context['max_length']} in the list",
    "list_type": lambda context: "a list",
    "tuple_type": lambda context: "a list",
    "dict_type": lambda context: "a mapping of keys to values",
    "model_type": lambda context: "a mapping of keys to values",
    "model_attributes_type": lambda context: "a mapping of keys to values",
    "none_required": lambda context: "nothing",
}


@dataclass(frozen=True)
class Validated:
    """What was validated: `value`, at `path` of the recipe, against `model`. `label` names it in messages.

    `also` are keys that are valid beside the model's own; `sources` are the registered model sources.
    """

    model: type[BaseModel]
    value: Any
    path: KeyPath
    label: str
    sources: Sources
    also: Collection[str] = ()


def problems_of(error: ValidationError, validated: Validated) -> list[Problem]:
    """One problem for each wrong value."""
    wrong: dict[KeyPath, list[Any]] = {}
    unknown: dict[KeyPath, list[str]] = {}
    missing: dict[KeyPath, list[str]] = {}
    for detail in error.errors(include_url=False):
        below = _document_path(validated.value, detail["loc"])
        if detail["type"] == "too_short" and _long_enough(_value_at(validated.value, below), detail["ctx"]):
            continue  # pydantic counts right values only, and the wrong ones are reported themselves
        if detail["type"] == "extra_forbidden":
            unknown.setdefault(below[:-1], []).append(str(below[-1]))
        elif detail["type"] == "missing":
            missing.setdefault(below, []).append(str(detail["loc"][-1]))
        else:
            wrong.setdefault(below, []).append(detail)
    problems = [
        p for below, names in unknown.items() for p in _unknown(validated, below, names, missing.get(below, []))
    ]
    for below, names in missing.items():
        for name in dict.fromkeys(names):
            message = f"missing key '{_dotted(below, name)}' in {validated.label}"
            problems.append(Problem((*validated.path, *below), message))
    for below, details in wrong.items():
        message = _sentence(details, _value_at(validated.value, below))
        problems.append(Problem((*validated.path, *below), message))
    return problems


def _unknown(validated: Validated, below: KeyPath, names: list[str], missing: list[str]) -> Iterator[Problem]:
    """Unknown keys of one mapping. A missing key that one of them was meant to be is taken out of `missing`."""
    valid = keys_at(validated.model, validated.value, below, validated.sources)
    valid |= set() if below else set(validated.also)
    for name in names:
        guess = nearest(name, valid)
        if guess in missing:
            missing.remove(guess)
        message = f"unknown key '{_dotted(below, name)}' in {validated.label}{suggestion(name, valid)}"
        yield Problem((*validated.path, *below, name), message, at_key=True)


def shown(value: Any) -> str:
    """A value from a recipe inside an error message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list | tuple):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _document_path(value: Any, location: tuple[str | int, ...]) -> KeyPath:
    """The part of pydantic's location that exists in the recipe: it also names alternatives and missing keys."""
    path: list[str | int] = []
    for step in location:
        inside = step in value if isinstance(value, dict) else _is_index(value, step)
        if inside:
            path.append(step)
            value = value[step]
    return tuple(path)


def _is_index(value: Any, step: str | int) -> bool:
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


def _value_at(value: Any, path: KeyPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _long_enough(value: Any, context: Mapping[str, Any]) -> bool:
    # A single value stands for a list of one.
    length = len(value) if isinstance(value, list | dict) else 1
    return length >= int(context["min_length"])


def _dotted(path: KeyPath, name: str) -> str:
    return ".".join(map(str, (*path, name)))


def _sentence(details: list[Any], given: Any) -> str:
    """One sentence for a value. Several errors at one place are the alternatives of one setting."""
    phrases, valid = [], []
    for detail in details:
        context = detail.get("ctx", {})
        if detail["type"] in _EXPECTED:
            phrases.append(_EXPECTED[detail["type"]](context))
            if detail["type"] in ("literal_error", "enum"):
                valid += _QUOTED.findall(context["expected"])
            continue
        message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if not message.startswith("expected ") or " got " in message or isinstance(given, dict):
            return message
        phrases.append(message.removeprefix("expected "))
    return f"expected {' or '.join(dict.fromkeys(phrases))}, got {shown(given)}{_hint(details, given, valid)}"


def _hint(details: list[Any], given: Any, valid: list[str]) -> str:
    kinds = {detail["type"] for detail in details}
    if isinstance(given, str) and nearest(given, valid):
        return f"; did you mean '{nearest(given, valid)}'?"
    if "bool_type" in kinds and isinstance(given, str) and given.lower() in _YAML_1_1_BOOLEANS:
        return "; yes, no, on and off are text in a recipe"
    if "string_type" in kinds and isinstance(given, bool | int | float):
        return f"; quote it to make it text: '{shown(given)}'"
    return ""


def _alternatives(expected: str) -> str:
    names = _QUOTED.findall(expected)
    return expected if len(names) < 3 else f"one of {', '.join(names)}"
