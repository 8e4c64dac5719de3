from __future__ import annotations

import pytest
from pydantic import ValidationError

from compress.recipe.model_reference import ModelReference
from tests.recipe.fakes import registry

CONTEXT = {"model_sources": registry().model_sources}


def test_the_source_fills_in_its_defaults_while_a_recipe_is_loaded() -> None:
    written = {"source": "torchvision", "name": "resnet18"}
    loaded = ModelReference.model_validate(written, context=CONTEXT)
    assert loaded.arguments == {"name": "resnet18", "stem": "default"}
    assert ModelReference.model_validate(written).arguments == {"name": "resnet18"}


def test_it_reads_back_what_it_dumps() -> None:
    loaded = ModelReference.model_validate({"source": "torchvision", "name": "resnet18"}, context=CONTEXT)
    assert ModelReference.model_validate_json(loaded.model_dump_json()) == loaded
    assert ModelReference.model_validate_json(loaded.model_dump_json(), context=CONTEXT) == loaded


def test_a_key_called_arguments_is_an_argument() -> None:
    loaded = ModelReference.model_validate(
        {"source": "module:function", "function": "a.b:c", "arguments": {"width": 8}}, context=CONTEXT
    )
    assert loaded.arguments == {"function": "a.b:c", "arguments": {"width": 8}}
    assert loaded.model_dump() == {"source": "module:function", "function": "a.b:c", "arguments": {"width": 8}}


@pytest.mark.parametrize(
    "wrong",
    ["resnet18", "a.b:", ":c", "a b:c", 5, None, [], {}, {"source": 5}, {"source": "torchvison"}, {"name": "x"},
     {"source": "torchvision"}, {"source": "torchvision", "name": "x", "stem": "tiny"},
     {"source": "torchvision", "name": "x", "width": 2}],
)  # fmt: skip
def test_other_forms_are_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        ModelReference.model_validate(wrong, context=CONTEXT)
