from __future__ import annotations

import pytest

from compress.recipe.document import Document, parse
from compress.recipe.problems import Place


def read(text: str) -> Document:
    return parse(text, "r.yaml", {})


def faults(text: str) -> list[str]:
    return [str(fault) for group in read(text).faults.values() for fault in group]


def test_values_and_keys_have_their_positions() -> None:
    document = read("a: 1\nb:\n  - c: {d: x}\n")
    assert document.value == {"a": 1, "b": [{"c": {"d": "x"}}]}
    assert document.place(("a",)) == Place(1, 4, "r.yaml")
    assert document.place(("a",), at_key=True) == Place(1, 1, "r.yaml")
    assert document.place(("b", 0, "c", "d")) == Place(3, 12, "r.yaml")
    assert document.place(("b", 0, "c", "missing")) == Place(3, 8, "r.yaml")


def test_columns_count_characters_and_a_byte_order_mark_is_none() -> None:
    assert read("ä: [ü, 1]").place(("ä", 1)) == Place(1, 8, "r.yaml")


def test_aliases_are_copies() -> None:
    value = read("a: &x {n: 1}\nb: *x\n").value
    assert value == {"a": {"n": 1}, "b": {"n": 1}}
    assert value["a"] is not value["b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", ["r.yaml:3:1: key 'a' is given twice, first in line 1"]),
        ("a: !!python/object:os.system x\n", ["r.yaml:1:4: tags are not supported, got !!python/object:os.system"]),
        ("a: !env X\n", ["r.yaml:1:4: tags are not supported, got !env"]),
        ("x: &x {a: 1}\ny: {<<: *x}\n", ["r.yaml:2:5: merge keys (<<) are not supported"]),
        ("? [a]\n: 1\n", ["r.yaml:1:3: expected a name as key"]),
        ("'': 1\n", ["r.yaml:1:1: expected a name as key"]),
        ("${A}: 1\n", ["r.yaml:1:1: variables are not allowed in keys, got ${A}"]),
        ("a: &x [*x]\n", ["r.yaml:1:4: this alias contains itself"]),
        ("a: 010\n", ["r.yaml:1:4: numbers with leading zeros are ambiguous; write 10, or quote it: '010'"]),
        ('a: "\\ud800"\n', ["r.yaml:1:4: this text holds half of a surrogate pair"]),
        ("a: b: c\n", ["r.yaml:1:5: not valid YAML: mapping values are not allowed here"]),
        ("a: 1\n---\nb: 2\n", None),
        ("a: \x07\n", ["r.yaml:1:4: character U+0007 is not allowed"]),
        ("[" * 200, ["r.yaml:1:41: nested too deeply"]),
        ('a: "\\UFFFFFFFF"', None),
        ("\U000f0000: 1", ["r.yaml:1:1: private-use characters are not allowed in a recipe"]),
    ],
)
def test_what_has_no_single_meaning_is_refused(text: str, expected: list[str] | None) -> None:
    found = faults(text)
    assert len(found) == 1
    assert expected is None or found == expected


def test_every_fault_is_found() -> None:
    assert len(faults("a: 010\nb: .nan\na: 1\nc: !x 1\n")) == 4


def test_aliases_cannot_blow_up_memory() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    assert faults(text)[0].endswith("a recipe has at most 50000 values, aliases counted where they are used")


def test_depth_is_limited_through_aliases_too() -> None:
    text = "".join(f"a{i}: &a{i} [{f'*a{i - 1}' if i else 'x'}]\n" for i in range(60))
    assert "nested too deeply" in faults(text)[0]


def test_words_of_yaml_1_1_are_text() -> None:
    assert read("on: yes\nno: off\n").value == {"on": "yes", "no": "off"}


def test_an_empty_document_is_none() -> None:
    assert read("# nothing\n").value is None
