"""What is searched: parameters by name, each a range or a list of choices. Imports the standard library alone.

A parameter is written as a list of choices, `[32, 64, 128]`, or as a range, `{low: 1e-5, high: 1e-2, log: true}`.
A range of whole numbers gives whole numbers; `step` takes every step-th value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edge_runtime.nearest import suggestion
from tune.errors import UsageError

Choice = bool | int | float | str | None
_RANGE_KEYS = ("low", "high", "log", "step")
_MOST_GRID_POINTS = 100_000


@dataclass(frozen=True)
class Categorical:
    """One of a few values without an order that the sampler could use."""

    choices: tuple[Choice, ...]

    def to_json(self) -> Any:
        return list(self.choices)

    def __contains__(self, value: object) -> bool:
        return any(_same(value, choice) for choice in self.choices)


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; `whole` for whole numbers. `log` searches orders of magnitude."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    def to_json(self) -> Any:
        written: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.log:
            written["log"] = True
        if self.step is not None:
            written["step"] = self.step
        return written

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or (self.whole and int(value) != value):
            return False
        return self.low <= value <= self.high


Parameter = Categorical | Range


@dataclass(frozen=True)
class Space:
    """The parameters of a study by name, in the order in which they were written."""

    parameters: Mapping[str, Parameter]

    def to_json(self) -> dict[str, Any]:
        return {name: parameter.to_json() for name, parameter in self.parameters.items()}

    def difference(self, other: Space) -> tuple[str, ...]:
        """How `other` differs from this space, one line a parameter; empty when both are the same."""
        before, after = self.to_json(), other.to_json()
        lines = [f"{name} was {_shown(before[name])} and is left out now" for name in before if name not in after]
        for name, written in after.items():
            if name not in before:
                lines.append(f"{name} is new")
            elif not _same(before[name], written):
                lines.append(f"{name} was {_shown(before[name])} and is {_shown(written)} now")
        return tuple(lines)


def parse_space(written: Mapping[str, Any]) -> Space:
    """The space that a mapping describes. Raises UsageError with every problem."""
    parameters, problems = {}, []
    if not written:
        problems.append("the space is empty; expected at least one parameter, a list of choices or {low: , high: }")
    for name, value in written.items():
        try:
            parameters[name] = parse_parameter(value)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise UsageError(problems)
    return Space(parameters)


def parse_parameter(value: Any) -> Parameter:
    """A list of choices or a range. Raises ValueError that says what was expected."""
    if isinstance(value, list | tuple):
        return _categorical(value)
    if isinstance(value, Mapping):
        return _range(value)
    raise ValueError(f"expected a list of choices, or a range {{low: , high: }}, got {_shown(value)}")


def grid(space: Space) -> Iterator[dict[str, Choice]]:
    """Every point of a space whose parameters are all lists or ranges with a step (or of whole numbers).

    Raises UsageError for a continuous range, and for a grid of more than 100,000 points.
    """
    axes: dict[str, tuple[Choice, ...]] = {}
    problems = []
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Range) and not parameter.whole and parameter.step is None:
            problems.append(f"{name}: a grid needs a list of choices or a step, got {_shown(parameter.to_json())}")
        else:
            axes[name] = _values(parameter)
    size = math.prod(len(values) for values in axes.values())
    if not problems and size > _MOST_GRID_POINTS:
        problems.append(f"the grid has {size} points, more than {_MOST_GRID_POINTS}; use another sampler")
    if problems:
        raise UsageError(problems)
    return (dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values()))


def _values(parameter: Parameter) -> tuple[Choice, ...]:
    if isinstance(parameter, Categorical):
        return parameter.choices
    step = parameter.step or 1
    count = math.floor((parameter.high - parameter.low) / step + 1e-9) + 1
    if parameter.whole:
        return tuple(int(parameter.low + index * step) for index in range(min(count, _MOST_GRID_POINTS + 1)))
    # Rounded, so that 0.1 + 2 * 0.1 is 0.3.
    return tuple(round(parameter.low + index * step, 12) for index in range(min(count, _MOST_GRID_POINTS + 1)))


def _categorical(value: list[Any] | tuple[Any, ...]) -> Categorical:
    if not value:
        raise ValueError("expected at least one choice, got an empty list")
    for choice in value:
        if not isinstance(choice, bool | int | float | str | None):
            raise ValueError(f"expected choices that are numbers, text, true, false or null, got {_shown(choice)}")
        if isinstance(choice, float) and not math.isfinite(choice):
            raise ValueError(f"expected finite numbers as choices, got {choice}")
    for index, choice in enumerate(value):
        if any(_same(choice, other) for other in value[:index]):
            raise ValueError(f"the choice {_shown(choice)} is given twice")
    return Categorical(tuple(value))


def _range(value: Mapping[str, Any]) -> Range:
    for key in value:
        if key not in _RANGE_KEYS:
            raise ValueError(f"unknown key '{key}' in a range{suggestion(str(key), _RANGE_KEYS)}")
    missing = [key for key in ("low", "high") if key not in value]
    if missing:
        raise ValueError(f"a range needs low and high; {' and '.join(missing)} is missing")
    low, high, step = _number("low", value["low"]), _number("high", value["high"]), value.get("step")
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise ValueError(f"expected true or false for log, got {_shown(log)}")
    if step is not None:
        step = _number("step", step)
    whole = all(isinstance(number, int) for number in (low, high, *([] if step is None else [step])))
    _check(low, high, log, step)
    return Range(low, high, log, step, whole)


def _check(low: float, high: float, log: bool, step: float | None) -> None:
    """Raises ValueError for a range that cannot be searched."""
    if low > high:
        raise ValueError(f"low ({low}) is above high ({high}); did you mean {{low: {high}, high: {low}}}?")
    if log and low <= 0:
        raise ValueError(f"a logarithmic scale cannot reach zero or below; expected low above 0, got {low}")
    if log and step is not None:
        raise ValueError("log and step exclude each other: a logarithmic scale has no equal steps")
    if step is not None and step <= 0:
        raise ValueError(f"expected a step above 0, got {step}")
    if step is not None and step > high - low > 0:
        raise ValueError(f"the step ({step}) is larger than the range from {low} to {high}")


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a finite number for {key}, got {_shown(value)}")
    return value


def _same(first: object, second: object) -> bool:
    """Equality that tells 1 from true."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return first == second


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else str(value)
