"""Spaces as written, and what is said about wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from tune.errors import UsageError
from tune.space import Categorical, Range, grid, parse_parameter, parse_space


def test_a_list_is_a_choice_and_low_and_high_are_a_range() -> None:
    assert parse_parameter([32, 64]) == Categorical((32, 64))
    assert parse_parameter({"low": 1e-5, "high": 1e-2, "log": True}) == Range(1e-5, 1e-2, log=True)


def test_whole_ends_and_step_give_whole_numbers() -> None:
    assert parse_parameter({"low": 1, "high": 9, "step": 2}) == Range(1, 9, step=2, whole=True)
    assert not parse_parameter({"low": 1, "high": 9, "step": 0.5}).whole  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"low": 0, "high": 1.0, "log": True}, "a logarithmic scale cannot reach zero or below"),
        ({"low": -1.0, "high": 1.0, "log": True}, "expected low above 0, got -1.0"),
        ({"low": 2, "high": 1}, "low (2) is above high (1); did you mean {low: 1, high: 2}?"),
        ({"low": 1, "hgih": 2}, "unknown key 'hgih' in a range; did you mean 'high'?"),
        ({"low": 1}, "high is missing"),
        ({}, "low and high is missing"),
        ({"low": 1, "high": float("inf")}, "expected a finite number for high, got inf"),
        ({"low": True, "high": 2}, "expected a finite number for low, got true"),
        ({"low": 1, "high": 2, "log": "yes"}, "expected true or false for log, got 'yes'"),
        ({"low": 1.0, "high": 2.0, "log": True, "step": 0.1}, "log and step exclude each other"),
        ({"low": 1.0, "high": 2.0, "step": 0}, "expected a step above 0, got 0"),
        ({"low": 1.0, "high": 2.0, "step": 5.0}, "the step (5.0) is larger than the range"),
        ([], "expected at least one choice, got an empty list"),
        ([1, 1], "the choice 1 is given twice"),
        ([[1]], "expected choices that are numbers, text, true, false or null, got [1]"),
        ([float("nan")], "expected finite numbers as choices, got nan"),
        (3, "expected a list of choices, or a range {low: , high: }, got 3"),
        (None, "expected a list of choices, or a range {low: , high: }, got null"),
    ],
)
def test_a_wrong_parameter_says_what_was_expected(written: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_parameter(written)
    assert message in str(raised.value)


def test_one_and_true_are_different_choices() -> None:
    assert parse_parameter([1, True]) == Categorical((1, True))


def test_every_problem_of_a_space_is_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        parse_space({"a": [], "b": {"low": 2, "high": 1}, "c": [1]})
    assert [problem.partition(":")[0] for problem in raised.value.problems] == ["a", "b"]


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(UsageError, match="the space is empty"):
        parse_space({})


def test_a_space_goes_through_json_unchanged() -> None:
    space = parse_space(
        {"a": [None, "x", 1, True], "b": {"low": 1, "high": 8}, "c": {"low": 0.1, "high": 1.0, "log": True}}
    )
    assert parse_space(space.to_json()) == space
    assert space.difference(parse_space(space.to_json())) == ()


def test_a_difference_names_what_was_and_what_is() -> None:
    before = parse_space({"a": [1], "b": {"low": 1, "high": 8}, "d": [1]})
    after = parse_space({"b": {"low": 1, "high": 9}, "c": [1], "d": [True]})
    assert before.difference(after) == (
        "a was [1] and is left out now",
        "b was {low: 1, high: 8} and is {low: 1, high: 9} now",
        "c is new",
        "d was [1] and is [true] now",
    )


def test_a_grid_has_every_point_once_and_no_rounding_noise() -> None:
    points = list(grid(parse_space({"a": [1, 2], "b": {"low": 0.1, "high": 0.4, "step": 0.1}})))
    assert len(points) == 8
    assert sorted({point["b"] for point in points}) == [0.1, 0.2, 0.3, 0.4]


def test_a_grid_of_a_continuous_range_is_refused() -> None:
    with pytest.raises(UsageError, match=r"rate: a grid needs a list of choices or a step"):
        grid(parse_space({"rate": {"low": 0.1, "high": 1.0}}))


def test_a_grid_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="more than 100000; use another sampler"):
        grid(parse_space({"a": {"low": 0, "high": 1000}, "b": {"low": 0, "high": 1000}}))
