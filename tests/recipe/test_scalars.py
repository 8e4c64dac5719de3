from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compress.recipe.scalars import ScalarError, resolve_plain


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2e-3", 2e-3),
        ("1E5", 1e5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.0", -0.0),
        ("1_000", 1000),
        ("0", 0),
        ("0.5", 0.5),
        ("-7", -7),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("FALSE", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("yes", "yes"),
        ("on", "on"),
        ("No", "No"),
        ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"),
        ("72%", "72%"),
        ("1__0", "1__0"),
        ("e5", "e5"),
        ("0x", "0x"),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
    ],
)
def test_unquoted_words_mean_what_yaml_1_2_says(written: str, meant: object) -> None:
    value = resolve_plain(written)
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("010", "numbers with leading zeros are ambiguous; write 10, or quote it: '010'"),
        ("-007.5", "numbers with leading zeros are ambiguous; write -7.5, or quote it: '-007.5'"),
        ("00", "numbers with leading zeros are ambiguous; write 0, or quote it: '00'"),
        (".inf", "expected a finite number, got .inf"),
        (".NaN", "expected a finite number, got .NaN"),
        ("1e999", "expected a finite number, got 1e999"),
        ("9223372036854775808", "expected a whole number of at most 64 bits"),
        ("9" * 5000, "this number is too long"),
    ],
)
def test_numbers_without_a_single_finite_meaning_are_refused(written: str, message: str) -> None:
    with pytest.raises(ScalarError) as caught:
        resolve_plain(written)
    assert str(caught.value) == message


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
def test_what_json_writes_is_read_back(value: float) -> None:
    assert resolve_plain(json.dumps(value)) == value


@given(st.text(st.sampled_from("0123456789.-+_eExob:%~ainfNtrue"), max_size=12))
def test_every_word_has_a_meaning_or_a_clear_error(text: str) -> None:
    try:
        value = resolve_plain(text)
    except ScalarError as error:
        value = str(error)
        assert value
    assert not isinstance(value, float) or math.isfinite(value)
