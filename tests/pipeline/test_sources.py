"""Which source files a module stands on, found without importing any."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from compress.pipeline.sources import SourceReader


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local package `plug` on the Python path, empty but for `__init__`."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    folder = tmp_path / "plug"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    importlib.invalidate_caches()
    return folder


def reached(*modules: str) -> set[str]:
    return set(SourceReader().sources(modules).modules)


@pytest.mark.parametrize(
    "text",
    [
        "import plug.helper",
        "from plug import helper",
        "from plug.helper import thing",
        "from . import helper",
        "from .helper import thing as other",
        "def later():\n    from plug import helper",
        "class A:\n    def b(self):\n        import plug.helper",
        "try:\n    import plug.helper\nexcept ImportError:\n    pass",
        "if True:\n    import plug.helper",
    ],
)
def test_imports_of_every_form_and_depth_are_found(package: Path, text: str) -> None:
    (package / "stage.py").write_text(text)
    (package / "helper.py").write_text("")
    assert reached("plug.stage") == {"plug", "plug.stage", "plug.helper"}


def test_imports_are_followed_over_several_files_and_round_in_circles(package: Path) -> None:
    (package / "one.py").write_text("from plug import two")
    (package / "two.py").write_text("from plug import three")
    (package / "three.py").write_text("from plug import one")
    assert reached("plug.one") == {"plug", "plug.one", "plug.two", "plug.three"}


def test_imports_for_type_checkers_alone_are_not_followed(package: Path) -> None:
    (package / "stage.py").write_text(
        "import typing\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import plug.helper\nelse:\n    import plug.real\n"
        "if typing.TYPE_CHECKING:\n    import plug.helper\n"
    )
    (package / "helper.py").write_text("")
    (package / "real.py").write_text("")
    assert reached("plug.stage") == {"plug", "plug.stage", "plug.real"}


def test_functions_of_a_parent_package_that_is_only_passed_through_are_not_followed(package: Path) -> None:
    (package / "__init__.py").write_text(
        "import plug.eager\ndef __getattr__(name):\n    import plug.lazy\n    return plug.lazy\n"
    )
    for name in ("stage", "eager", "lazy"):
        (package / f"{name}.py").write_text("")
    assert reached("plug.stage") == {"plug", "plug.stage", "plug.eager"}
    assert reached("plug") == {"plug", "plug.eager", "plug.lazy"}


def test_a_string_that_names_a_module_of_this_distribution_is_followed(package: Path) -> None:
    (package / "stage.py").write_text(
        'FACTORY = "compress.models.saved:load_model"\nWORKER = ["-m", "export.worker"]\n'
    )
    found = reached("plug.stage")
    assert {"compress.models.saved", "compress.models.builders", "export.worker"} <= found


def test_a_stage_of_ours_stands_on_its_models_and_not_on_the_pipeline() -> None:
    found = reached("compress.stages.export")
    assert {"compress.stages.export", "compress.models.saved", "export.convert", "export.worker"} <= found
    assert not {name for name in found if name.startswith(("compress.pipeline", "compress.cli"))}


def test_a_task_of_ours_stands_on_its_preprocessing() -> None:
    assert "edge_runtime.preprocess" in reached("compress.tasks.image_classification.task")


def test_installed_packages_are_no_local_source_but_are_named_for_user_code(package: Path) -> None:
    (package / "stage.py").write_text("import numpy as np\nimport yaml\nimport os\nimport no_such_module\n")
    found = SourceReader().sources(["plug.stage"])
    assert set(found.modules) == {"plug", "plug.stage"}
    assert found.installed == {"numpy", "yaml"}


def test_an_installed_module_that_is_asked_for_counts_by_its_package() -> None:
    found = SourceReader().sources(["yaml.loader"])
    assert found.modules == {}
    assert found.installed == {"yaml"}


def test_data_beside_the_code_of_a_package_belongs_to_it(package: Path) -> None:
    (package / "stage.py").write_text("")
    (package / "table.json").write_text("{}")
    before = SourceReader().sources(["plug.stage"]).modules
    (package / "table.json").write_text("[]")
    after = SourceReader().sources(["plug.stage"]).modules
    assert before.keys() == after.keys() == {"plug", "plug.stage", "plug/table.json"}
    assert before != after


def test_a_module_that_cannot_be_parsed_still_counts_by_its_bytes(package: Path) -> None:
    (package / "stage.py").write_text("def broken(:\n")
    before = SourceReader().sources(["plug.stage"]).modules
    (package / "stage.py").write_text("def broken(x:\n")
    assert before["plug.stage"] != SourceReader().sources(["plug.stage"]).modules["plug.stage"]


def test_nothing_is_imported_to_find_out(package: Path) -> None:
    (package / "stage.py").write_text("raise RuntimeError('imported')")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    assert reached("plug.stage") == {"plug", "plug.stage"}
    assert "plug" not in sys.modules


def test_a_folder_without_init_is_passed_through(package: Path) -> None:
    (package / "bare").mkdir()
    (package / "bare/inner.py").write_text("")
    (package / "stage.py").write_text("from plug.bare import inner")
    assert {"plug.bare.inner", "plug.stage"} <= reached("plug.stage")


def test_names_that_are_no_modules_are_ignored() -> None:
    assert SourceReader().sources(["no.such.module", "os", "", "resnet18"]).modules == {}
