from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from compress.recipe.gates import GATES
from compress.recipe.json_schema import recipe_schema
from tests.recipe.fakes import CHAIN, registry

SCHEMA = recipe_schema(registry())


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(below)


def target(reference: str) -> Any:
    here: Any = SCHEMA
    for part in reference.removeprefix("#/").split("/"):
        here = here[part.replace("~1", "/").replace("~0", "~")]
    return here


def test_every_reference_leads_somewhere() -> None:
    references = [node["$ref"] for node in walk(SCHEMA) if isinstance(node.get("$ref"), str)]
    assert references
    for reference in references:
        assert isinstance(target(reference), dict)


def test_every_stage_source_and_gate_has_its_keys() -> None:
    stages = registry().stages
    for use, stage in stages.items():
        definition = SCHEMA["$defs"][f"stage.{use}"]
        assert set(definition["properties"]) == {"id", "use", "from", "as", *stage.Settings.model_fields}
        assert definition["additionalProperties"] is False
    assert set(SCHEMA["properties"]["gates"]["items"]["properties"]) == {"of", *GATES}
    assert set(SCHEMA["$defs"]["data.image-classification.digits"]["properties"]) == {"source", "limit"}


def test_it_is_json() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


# The same recipes, judged by an implementation of JSON Schema where one is installed.

CHANGES = [
    ("", "", True),
    ("epochs: 4", "epochs: ${EPOCHS}", True),
    ("{source: torchvision, name: resnet18}", "package.module:build", True),
    ("macs: 0.65", "macs: 65%", True),
    ("[onnx, tflite]", "onnx", True),
    ("of: student/tflite-int8", "of: [student/tflite-int8, pruned/tflite-int8]", True),
    ("epochs: 4", "epochs: four", False),
    ("epochs: 4", "epohcs: 4", False),
    ("72%", "72 percent", False),
    ("use: prune", "use: prun", False),
    ("[onnx, tflite]", "[onnx, keras]", False),
    ("source: digits", "source: digts", False),
    ("source: torchvision", "source: torchvison", False),
    ("name: resnet18", "nam: resnet18", False),
    ("quality_drop", "qualty_drop", False),
    ("metric: accuracy, max: 1%", "metric: accuracy", False),
    ("recipe: 1", "recipe: 2", False),
    ("seed: 3", "sede: 3", False),
]


@pytest.mark.parametrize(("old", "new", "right"), CHANGES)
def test_editors_judge_recipes_as_the_loader_does(old: str, new: str, right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="no implementation of JSON Schema is installed")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    recipe = yaml.safe_load(CHAIN.replace(old, new) if old else CHAIN)
    recipe["stages"][0]["learning_rate"] = 2e-3  # PyYAML's own loader reads 2e-3 as text
    errors = [error.message for error in validator.iter_errors(recipe)]
    assert (not errors) == right, errors
