"""The numbers of docs/measuring.md are those of the code."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest
from pydantic import BaseModel

from tests.docs.pages import ROOT, read

ROWS = re.findall(r"^\| (.+?) \| ([\d.]+) \| `([\w.]+):(\w+)(?:\.(\w+))?` \|$", read("measuring.md"), re.MULTILINE)


def value_of(module: str, name: str, inner: str) -> Any:
    """A constant, the default of a parameter, or the default of a setting."""
    thing = getattr(importlib.import_module(module), name)
    if not inner:
        return thing
    if isinstance(thing, type) and issubclass(thing, BaseModel):
        return thing.model_fields[inner].default
    return inspect.signature(thing).parameters[inner].default


@pytest.mark.parametrize(("what", "value", "module", "name", "inner"), ROWS)
def test_a_number_is_that_of_the_code(what: str, value: str, module: str, name: str, inner: str) -> None:
    assert float(value) == value_of(module, name, inner), what


def test_the_table_of_numbers_is_found() -> None:
    table = read("measuring.md").partition("| what | value | where |")[2].partition("\n\n")[0]
    assert len(ROWS) == table.count("\n") - 1 > 10


def test_every_benchmark_script_is_listed() -> None:
    listed = set(re.findall(r"`benchmarks/(\w+\.py)`", read("measuring.md")))
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py")}
    assert scripts - {"raw_samples.py"} <= listed
