"""What an installation has and what is wrong with it, for `edgepress doctor` and bug reports. Imports no framework."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from edge_runtime.engines import engine_specs, engine_version, is_installed
from edge_runtime.version import VERSION

Row = tuple[str, str]
_DISTRIBUTION = "edgepress"
_PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "onnx",
    "onnxscript",
    "onnxslim",
    "litert-torch",
    "litert-quantizer",
    "torch-pruning",
    "safetensors",
    "pydantic",
    "pyyaml",
    "optuna",
    "optuna-dashboard",
)
_SAME_FOLDER = (("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),)
"""Distributions that unpack into one folder, so that only one of them can be whole."""


@dataclass(frozen=True)
class Diagnosis:
    """Rows are (name, value). `conflicts` are sentences that say what clashes and what would be right."""

    machine: tuple[Row, ...]
    packages: tuple[Row, ...]
    engines: tuple[Row, ...]
    conflicts: tuple[str, ...]


def diagnose() -> Diagnosis:
    """Looks at the installed distributions and the machine; opens no model and touches no network."""
    return Diagnosis(
        machine=tuple(_machine()),
        packages=tuple((name, installed_version(name) or "not installed") for name in _PACKAGES),
        engines=tuple(_engines()),
        conflicts=(*unmet_requirements((_DISTRIBUTION, *_PACKAGES)), *shared_folders(_SAME_FOLDER)),
    )


def installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[Row]:
    yield "edgepress", VERSION
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "system", platform.platform()
    cores = os.cpu_count() or 1
    # Not on every system; where a container or taskset gives fewer cores, threads beyond those only slow down.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    yield "cores", str(cores) if usable == cores else f"{usable} usable of {cores}"
    yield "OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "not set")


def _engines() -> Iterator[Row]:
    for name, spec in engine_specs().items():
        state = engine_version(name) if is_installed(spec) else f"not installed: pip install edgepress[{spec.extra}]"
        yield f"engine {name}", f"{state} ({', '.join(spec.suffixes)})"


def unmet_requirements(roots: Sequence[str]) -> Iterator[str]:
    """Requirements of installed distributions, from `roots` down, that what is installed does not meet.

    Extras of the first root count only where their packages are installed: nobody needs every extra.
    """
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield "versions were not checked against each other: install the package packaging"
        return
    pending, seen = list(roots), set()
    while pending:
        name = pending.pop(0)
        if _normal(name) in seen:
            continue
        seen.add(_normal(name))
        for text in _requirements(name):
            requirement = Requirement(text)
            extras = _extras(text) if name == roots[0] else ("",)
            if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
                continue
            version = installed_version(requirement.name)
            if version is not None:
                pending.append(requirement.name)
                if not requirement.specifier.contains(version, prereleases=True):
                    yield f"{name} needs {requirement.name}{requirement.specifier}, but {version} is installed"
            elif extras == ("",):
                yield f"{name} needs {requirement.name}, which is not installed"


def _requirements(distribution: str) -> list[str]:
    try:
        return importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _extras(requirement: str) -> tuple[str, ...]:
    return ("", *re.findall(r"extra\s*==\s*[\"']([^\"']+)[\"']", requirement))


def shared_folders(groups: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Groups of distributions of which more than one is installed into the same folder."""
    for group in groups:
        found = [name for name in group if installed_version(name)]
        if len(found) > 1:
            yield f"{' and '.join(found)} share one folder; uninstall all of them and install one"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
