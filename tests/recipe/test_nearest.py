from __future__ import annotations

from compress.recipe.nearest import nearest, suggestion


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("Epohcs", ["epochs", "batch_size"]) == "epochs"
    assert nearest("zzz", ["epochs", "batch_size"]) is None


def test_where_nothing_is_close_the_valid_names_are_listed() -> None:
    assert suggestion("zzz", ["b", "a"]) == "; expected one of a, b"
    assert suggestion("zzz", ["a"]) == "; expected 'a'"
    assert suggestion("zzz", []) == ""


def test_a_long_list_is_cut_and_says_so() -> None:
    text = suggestion("?", [f"name{i:03}" for i in range(50)])
    assert text.endswith("name011, ... (50 in all)")
