"""What is installed, through the commands that only read: they import no framework, and every key explains itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compress.pipeline.registry import installed_registry
from compress.recipe.describe import Entry, describe
from compress.recipe.json_schema import recipe_schema
from compress.recipe.loader import load_recipe
from tests.recipe.test_json_schema import walk

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart.yaml"
ENTRIES = describe(installed_registry())


@pytest.mark.parametrize(
    "arguments", [["validate", str(QUICKSTART)], ["plan", str(QUICKSTART)], ["stages"], ["schema"]], ids=lambda a: a[0]
)
def test_commands_that_only_read_import_no_framework(arguments: list[str], tmp_path: Path) -> None:
    code = "import sys\nfrom compress.__main__ import main\ncode = main(sys.argv[1:])\nprint(code, *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    exit_code, *modules = done.stdout.splitlines()[-1].split()
    assert exit_code == "0", done.stderr
    assert not set(modules) & {"torch", "torchvision", "onnx", "onnxruntime", "tensorflow", "litert_torch", "openvino"}
    assert not list(tmp_path.iterdir())


def test_the_quickstart_has_the_names_of_the_documentation() -> None:
    recipe = load_recipe(QUICKSTART, installed_registry(), environment={})
    assert {result for node in recipe.nodes for result in node.results} >= {
        "baseline",
        "pruned",
        "student",
        "baseline/tflite-fp32",
        "student/tflite-int8",
        "proof",
    }


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind} {entry.name}".replace(" ", "-"))
def test_everything_that_can_be_named_says_what_it_is(entry: Entry) -> None:
    assert entry.summary
    assert [key.name for key in entry.keys if not key.description] == []
    assert [key.name for key in entry.keys if key.type == "any"] == []


def test_every_stage_says_what_it_takes_and_gives() -> None:
    for stage in installed_registry().stages.values():
        assert stage.takes in ("nothing", "each", "all")
        assert stage.parents in ("torch", "file")
        assert stage.gives in ("torch", "file", "proof")


def test_the_schema_for_editors_is_whole() -> None:
    schema = recipe_schema(installed_registry())
    for node in walk(schema):
        if isinstance(node.get("$ref"), str):
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]


def test_editors_accept_the_quickstart() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="no implementation of JSON Schema is installed")
    from compress.recipe.document import parse

    validator = jsonschema.Draft202012Validator(recipe_schema(installed_registry()))
    for path in sorted((ROOT / "recipes").glob("*.yaml")):
        recipe = parse(path.read_text(encoding="utf-8"), str(path), {"DATA": "x"}).value
        assert [error.message for error in validator.iter_errors(recipe)] == []
