"""The recipes that ship: all are valid, each says its command, and the quick ones pass their own gates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compress.pipeline.registry import installed_registry
from compress.recipe.loader import load_recipe

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
DATA = Path(os.environ.get("DATA", ROOT.parent / "shared" / "data"))


def run(recipe: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command of the recipe's header, with a store and a run folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", "compress", "run", str(ROOT / "recipes" / recipe)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DATA": str(DATA), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_valid_and_headed_by_its_command_cost_and_expectation(recipe: Path, tmp_path: Path) -> None:
    for name in ("train.tar", "test.tar"):
        (tmp_path / "cifar10").mkdir(exist_ok=True)
        (tmp_path / "cifar10" / name).touch()
    load_recipe(recipe, installed_registry(), environment={"DATA": str(tmp_path)})
    header = recipe.read_text().split("recipe: 1")[0]
    command = "tune" if recipe.stem == "tuning" else "run"
    assert f"python -m compress {command} recipes/{recipe.name}" in header
    assert "minutes" in header.splitlines()[0]


@pytest.mark.slow
def test_the_quickstart_passes_its_gates_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    first = run("quickstart.yaml", tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    second = run("quickstart.yaml", tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "nothing to do" in second.stdout
    reports = [
        json.loads(path.read_text()) for path in sorted((tmp_path / "runs" / "quickstart").glob("*/report.json"))
    ]
    assert len(reports) == 2
    assert all(stage["cached"] for stage in reports[1]["stages"])
    assert reports[0]["variants"] == reports[1]["variants"]


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "cifar10" / "train.tar").is_file(), reason="needs the CIFAR-10 shards: set DATA")
def test_the_quick_cifar10_recipe_passes_its_gates(tmp_path: Path) -> None:
    done = run("cifar10_quick.yaml", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "runs" / "cifar10-quick").glob("*/report.json")
    report = json.loads(path.read_text())
    assert {row["verdict"] for row in report["reference"]} & {"beats", "reproduces", "falls short"}
    assert {name.partition("@")[2] for name in report["variants"]} >= {"", "openvino"}
