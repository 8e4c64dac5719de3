"""The plug-ins of docs/plugins.md are installed by entry points, found, and run by the real commands."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from compress.pipeline.registry import installed_registry
from compress.recipe.loader import load_recipe
from tests.docs.pages import blocks, read


@pytest.fixture
def installed(workplace: Path) -> Path:
    """The package of the page as pip would leave it: its modules, and metadata with its entry points."""
    (project,) = blocks("plugins.md", "toml", "plugin")
    about = tomllib.loads(project.text)["project"]
    metadata = workplace / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    lines = []
    for group, points in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (recipe,) = blocks("plugins.md", "yaml", "plugin")
    (workplace / "plugin.yaml").write_text(recipe.text)
    return workplace


def command(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plug_ins_are_found_and_their_keys_are_checked(installed: Path) -> None:
    found = installed_registry()
    recipe = load_recipe("plugin.yaml", found)
    assert [spec.use for spec in recipe.stages] == ["train", "distill", "average"]
    assert recipe.stages[0].settings.model.arguments == {"width": 4}
    assert recipe.canonical["data"]["count"] == 400
    from edge_runtime.engines import engine_spec

    assert engine_spec("onnx-reference").module == "edgepress_reference"


def test_a_recipe_of_plug_ins_runs_and_its_result_is_the_mean(installed: Path) -> None:
    command("compress", "run", "plugin.yaml", "--directory", "out", "--device", "cpu", "--quiet")
    report = json.loads(Path("out/report.json").read_text())
    assert report["status"] == "passed"
    assert report["torch_variants"]["mean"]["lineage"] == ["start", "further"]
    import torch
    from safetensors.torch import load_file

    start, further, mean = (load_file(f"out/variants/{name}/weights.safetensors") for name in NAMES)
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (start[name] + further[name]) / 2)
    assert any(not torch.equal(start[name], further[name]) for name in mean)


NAMES = ("start", "further", "mean")


def test_the_engine_of_the_page_answers_like_the_formula(installed: Path) -> None:
    import numpy as np

    from tests.edge_runtime.model_files import SHAPE, expected, write_onnx

    values = np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32)
    np.save("values.npy", values)
    path = write_onnx(installed / "model.onnx")
    answer = json.loads(command("edge_runtime", "run", str(path), "values.npy", "--engine", "onnx-reference", "--json"))
    assert (answer["engine"], answer["delegate"]) == ("onnx-reference", "numpy")
    found = {entry["label"]: entry["probability"] for entry in answer["results"][0]["labels"]}
    logits = expected(values)[0]
    np.testing.assert_allclose(
        [found[name] for name in ("cat", "dog", "owl")], np.exp(logits) / np.exp(logits).sum(), rtol=1e-5
    )


def test_every_group_that_the_code_looks_up_is_documented() -> None:
    from compress.models.builders import ENTRY_POINTS as MODELS
    from compress.pipeline import registry
    from edge_runtime.engines import ENTRY_POINTS as ENGINES

    groups = {word for word in (registry.__doc__ or "").replace("`", " ").split() if word.startswith("edgepress.")}
    for group in groups | {MODELS, ENGINES}:
        assert f"| `{group}` |" in read("plugins.md")
