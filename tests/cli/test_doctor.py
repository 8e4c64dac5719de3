from __future__ import annotations

import importlib.metadata

import pytest

from compress import diagnosis
from compress.__main__ import main
from compress.diagnosis import Diagnosis, diagnose, shared_folders, unmet_requirements

pytest.importorskip("packaging", reason="versions are compared by the package packaging")


@pytest.fixture
def distributions(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, list[str]]]:
    """An installation made by hand: name to version and requirements."""
    installed: dict[str, tuple[str, list[str]]] = {}

    def version(name: str) -> str | None:
        return installed[name][0] if name in installed else None

    def requires(name: str) -> list[str]:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name][1]

    monkeypatch.setattr(diagnosis, "installed_version", version)
    monkeypatch.setattr(importlib.metadata, "requires", requires)
    return installed


def test_what_does_not_fit_is_named_with_what_would(distributions: dict[str, tuple[str, list[str]]]) -> None:
    distributions |= {
        "edgepress": ("1", ["numpy>=2", 'torch>=2.14,<2.15; extra == "compress"', 'keras; extra == "tensorflow"']),
        "torch": ("2.15", ["sympy>=1", 'gone; extra == "opt"']),
        "numpy": ("2.4", []),
        "sympy": ("0.9", []),
    }
    assert list(unmet_requirements(["edgepress"])) == [
        "edgepress needs torch<2.15,>=2.14, but 2.15 is installed",
        "torch needs sympy>=1, but 0.9 is installed",
    ]


def test_a_missing_requirement_is_named_unless_an_extra_asks_for_it(
    distributions: dict[str, tuple[str, list[str]]],
) -> None:
    distributions |= {"edgepress": ("1", ["numpy>=2", 'torch; extra == "compress"', 'colorama; os_name == "nt"'])}
    assert list(unmet_requirements(["edgepress"])) == ["edgepress needs numpy, which is not installed"]


def test_an_installation_without_metadata_is_no_error(distributions: dict[str, tuple[str, list[str]]]) -> None:
    assert list(unmet_requirements(["edgepress"])) == []


def test_two_distributions_in_one_folder_clash(distributions: dict[str, tuple[str, list[str]]]) -> None:
    distributions |= {"opencv-python": ("4", []), "opencv-python-headless": ("4", [])}
    assert list(shared_folders([("opencv-python", "opencv-python-headless"), ("a", "b")])) == [
        "opencv-python and opencv-python-headless share one folder; uninstall all of them and install one"
    ]


def test_conflicts_decide_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = Diagnosis((("cores", "2"),), (("torch", "2.14"),), (), ("a needs b",))
    monkeypatch.setattr(diagnosis, "diagnose", lambda: found)
    assert main(["doctor"]) == 5
    captured = capsys.readouterr()
    assert captured.err == "conflict: a needs b\n"
    assert "torch  2.14" in captured.out


def test_this_installation_can_be_described() -> None:
    found = diagnose()
    names = {name for name, _ in (*found.machine, *found.packages, *found.engines)}
    assert {"edgepress", "python", "cores", "numpy", "engine litert"} <= names
