from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from compress.recipe.types import (
    Boolean,
    ByteSize,
    Duration,
    Fraction,
    InputFile,
    InputFolder,
    Listed,
    OneOrMany,
    PositiveFloat,
    PositiveInt,
    SignedFraction,
)
from tests.recipe.fakes import Settings


class Everything(Settings):
    fraction: Fraction = 0.0
    change: SignedFraction = 0.0
    duration: Duration = 0.0
    size: ByteSize = 0
    count: PositiveInt = 1
    rate: PositiveFloat = 1.0
    switch: Boolean = False
    formats: OneOrMany[Literal["onnx", "tflite"]] = ("onnx",)
    names: Listed[str] = ()
    file: InputFile | None = None
    folder: InputFolder | None = None


def both_ways(key: str, value: Any) -> Any:
    """The value that a setting takes; from Python and from JSON it must be the same."""
    from_python = getattr(Everything.model_validate({key: value}), key)
    from_json = getattr(Everything.model_validate_json(json.dumps({key: value})), key)
    assert from_python == from_json
    return from_python


@pytest.mark.parametrize(
    ("key", "written", "meant"),
    [
        ("fraction", "72%", 0.72),
        ("fraction", "91.7%", 0.917),
        ("fraction", " .5 % ", 0.005),
        ("fraction", "1e-1%", 0.001),
        ("fraction", 1, 1.0),
        ("fraction", 0.72, 0.72),
        ("change", "-150%", -1.5),
        ("change", 3, 3.0),
        ("duration", 90, 90),
        ("duration", "250ms", 0.25),
        ("duration", "5min", 300.0),
        ("duration", "2 h", 7200.0),
        ("size", 4096, 4096),
        ("size", "4GiB", 4 * 2**30),
        ("size", "1.5kB", 1500),
        ("rate", 2, 2.0),
        ("formats", "tflite", ("tflite",)),
        ("formats", ["onnx", "tflite"], ("onnx", "tflite")),
        ("names", [], ()),
        ("names", "a", ("a",)),
    ],
)
def test_settings_mean_what_people_write(key: str, written: Any, meant: Any) -> None:
    assert both_ways(key, written) == meant


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("fraction", 1.01),
        ("fraction", "101%"),
        ("fraction", "0.72"),
        ("fraction", "x%"),
        ("fraction", True),
        ("fraction", "1e400%"),
        ("change", None),
        ("duration", "5 parsecs"),
        ("duration", -1),
        ("duration", "1e400s"),
        ("size", "1.5B"),
        ("size", "4gib"),
        ("size", 1.5),
        ("size", False),
        ("count", 0),
        ("count", 1.0),
        ("count", True),
        ("count", "1"),
        ("rate", True),
        ("rate", 0),
        ("rate", "1"),
        ("switch", "yes"),
        ("switch", 1),
        ("formats", []),
        ("formats", ["onnx", "keras"]),
        ("names", [1]),
        ("file", 3),
        ("file", ""),
        ("file", "a\0b"),
    ],
)
def test_other_things_are_refused(key: str, written: Any) -> None:
    with pytest.raises(ValidationError):
        Everything.model_validate_json(json.dumps({key: written}))


@given(st.integers(-(10**6), 10**6), st.integers(0, 6))
def test_a_percentage_is_exactly_the_float_of_the_fraction(mantissa: int, places: int) -> None:
    sign = "-" if mantissa < 0 else ""
    digits = str(abs(mantissa)).rjust(places + 1, "0")
    written = sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
    assert Everything(change=f"{written}%").change == float(f"{mantissa}e{-places - 2}")


def test_paths_stay_as_written_and_are_checked_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights.pt").touch()
    check = {"check_paths": True}
    found = Everything.model_validate({"file": "weights.pt", "folder": "."}, context=check)
    assert found.file == Path("weights.pt")
    assert Everything.model_validate({"file": "gone.pt"}).file == Path("gone.pt")
    for wrong in ({"file": "gone.pt"}, {"file": "."}, {"folder": "weights.pt"}):
        with pytest.raises(ValidationError, match="working directory"):
            Everything.model_validate(wrong, context=check)


def test_a_missing_file_is_answered_with_the_nearest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    Path("models/weights.safetensors").touch()
    with pytest.raises(ValidationError, match=r"; did you mean 'models/weights.safetensors'\?"):
        Everything.model_validate({"file": "models/wieghts.safetensor"}, context={"check_paths": True})


def test_settings_read_back_as_what_they_were() -> None:
    first = Everything(fraction="72%", formats="tflite", size="4GiB", duration="5min", file="a/b.pt", names=["x"])
    assert Everything.model_validate_json(first.model_dump_json()) == first
