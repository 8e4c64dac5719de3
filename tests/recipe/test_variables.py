from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compress.recipe.variables import VariableError, find_variables
from tests.recipe.conftest import Load, Problems
from tests.recipe.fakes import CHAIN


def fill(text: str, **environment: str) -> str:
    variables = find_variables(text, environment)
    return variables.fill(variables.masked)


def test_variables_are_filled_in() -> None:
    assert fill("${DATA}/train and ${N:-4}", DATA="/data") == "/data/train and 4"


def test_a_default_stands_in_for_an_empty_variable_too() -> None:
    assert fill("${N:-4}", N="") == "4"
    assert fill("${N}", N="") == ""
    assert fill("${N:-}") == ""


def test_two_dollars_are_text() -> None:
    assert fill("$${DATA} $DATA $") == "${DATA} $DATA $"


def test_hiding_keeps_the_length_so_that_columns_stay_true() -> None:
    text = "a: ${DATA}, b: $${X} ${Y:-long default}, c"
    masked = find_variables(text, {}).masked
    assert len(masked) == len(text)
    assert masked.endswith(", c")
    assert "{" not in masked


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("ab ${DAT}", "environment variable DAT is not set; did you mean 'DATA'?", 3),
        ("${QQ}", "environment variable QQ is not set; set it, or write ${QQ:-default}", 0),
        ("x ${1}", "expected a variable like ${NAME} or ${NAME:-default}; $${ is text", 2),
        ("${", "expected a variable like ${NAME} or ${NAME:-default}; $${ is text", 0),
        ("${BAD}", "environment variable BAD holds characters that cannot be printed", 0),
    ],
)
def test_a_variable_that_cannot_be_filled_in_says_why_and_where(text: str, message: str, offset: int) -> None:
    with pytest.raises(VariableError) as caught:
        fill(text, DATA="x", BAD="a\nb")
    assert str(caught.value) == message
    assert caught.value.offset == offset


@given(st.text(st.characters(exclude_characters="$", max_codepoint=0xEFFFF)))
def test_text_without_variables_stays_as_it_is(text: str) -> None:
    assert fill(text) == text


def test_unquoted_variables_become_numbers_and_quoted_ones_text(load: Load, problems: Problems) -> None:
    environment = {"EPOCHS": "7", "SOURCE": "digits"}
    text = CHAIN.replace("epochs: 4", "epochs: ${EPOCHS}").replace("{source: digits}", "{source: ${SOURCE}}")
    assert load(text, environment=environment).stages[0].settings.epochs == 7
    quoted = CHAIN.replace("epochs: 4", 'epochs: "${EPOCHS}"')
    assert problems(quoted, environment=environment) == ["recipe.yaml:10:13: expected a whole number, got '7'"]


def test_a_variable_can_add_no_structure(problems: Problems) -> None:
    text = CHAIN.replace("source: digits", "source: ${SOURCE}")
    found = problems(text, environment={"SOURCE": "digits, limit: 3"})
    assert found == [
        "recipe.yaml:5:16: unknown data source of image-classification 'digits, limit: 3'; "
        "expected one of digits, image-folder"
    ]


def test_variables_in_comments_are_not_looked_up(load: Load) -> None:
    assert load("# with ${NOWHERE} and ${\n" + CHAIN).name == "chain"


def test_an_override_makes_an_undefined_variable_needless(load: Load) -> None:
    text = CHAIN.replace("epochs: 4", "epochs: ${NOWHERE}")
    assert load(text, "stages.baseline.epochs=2").stages[0].settings.epochs == 2
