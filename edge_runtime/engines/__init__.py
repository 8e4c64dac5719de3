"""The engines by name. An engine's package is imported when its first model is opened, and not before."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.engines.checks import existing
from edge_runtime.engines.protocol import Engine
from edge_runtime.errors import EngineError, EngineMissingError, ModelFileError, UnknownEngineError
from edge_runtime.nearest import suggestion

ENTRY_POINTS = "edgepress.engines"
"""Third parties add an engine by an entry point that names an `EngineSpec`."""


@dataclass(frozen=True)
class EngineSpec:
    """How an engine is found: `module` has `open_model(path, threads, version) -> Engine`.

    `package` is what it imports, `distribution` what pip knows it as, `extra` the extra of this distribution that
    brings it, `suffixes` the files it runs.
    """

    name: str
    module: str
    package: str
    distribution: str
    extra: str
    suffixes: tuple[str, ...]


_BUILT_IN = {
    spec.name: spec
    for spec in (
        EngineSpec("litert", "edge_runtime.engines.litert", "ai_edge_litert", "ai-edge-litert", "litert", (".tflite",)),
        EngineSpec("onnxruntime", "edge_runtime.engines.onnxruntime", "onnxruntime", "onnxruntime", "onnx", (".onnx",)),
        EngineSpec("openvino", "edge_runtime.engines.openvino", "openvino", "openvino", "openvino", (".onnx",)),
    )
}


def engine_specs() -> dict[str, EngineSpec]:
    """Every known engine by name, installed or not; the first of a file type is its default.

    Raises EngineError when an entry point of a third party cannot be loaded.
    """
    import importlib.metadata

    specs = dict(_BUILT_IN)
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            spec: EngineSpec = entry_point.load()
        except Exception as error:
            raise EngineError(f"engine '{entry_point.name}' ({entry_point.value}) cannot be loaded: {error}") from error
        specs.setdefault(spec.name, spec)
    return specs


def engine_spec(name: str) -> EngineSpec:
    """Raises UnknownEngineError for a name that is none, with the nearest valid one."""
    if name in _BUILT_IN:  # spares a device the search through every installed distribution
        return _BUILT_IN[name]
    specs = engine_specs()
    if name not in specs:
        raise UnknownEngineError(f"unknown engine '{name}'{suggestion(name, specs)}")
    return specs[name]


def is_installed(spec: EngineSpec) -> bool:
    """True when the engine's package can be found; imports nothing."""
    return importlib.util.find_spec(spec.package) is not None


def engine_version(name: str) -> str:
    """The version of the engine's distribution. Raises EngineMissingError when it is not installed."""
    import importlib.metadata

    spec = engine_spec(name)
    if not is_installed(spec):
        raise EngineMissingError(
            f"engine '{name}' needs the package {spec.distribution}: pip install edgepress[{spec.extra}]"
        )
    try:
        return importlib.metadata.version(spec.distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def default_engine(path: str | Path) -> str:
    """The engine that runs a file by default: the first installed one of its type, else the first.

    Raises ModelFileError when no engine runs files with this suffix.
    """
    suffix = Path(path).suffix.lower()
    candidates = [spec for spec in _BUILT_IN.values() if suffix in spec.suffixes]
    candidates = candidates or [spec for spec in engine_specs().values() if suffix in spec.suffixes]
    if not candidates:
        known = ", ".join(sorted({known for spec in engine_specs().values() for known in spec.suffixes}))
        raise ModelFileError(f"no engine runs '{suffix}' files; expected one of {known}: {path}")
    return next((spec for spec in candidates if is_installed(spec)), candidates[0]).name


def open_engine(path: str | Path, engine: str | None = None, threads: int = 1) -> Engine:
    """Loads a model file. `engine` defaults by the file's suffix.

    Raises:
        ModelFileError: the file is missing, damaged, of a type that the engine does not run, or has a scale of zero.
        EngineError: the engine is not known; EngineMissingError: its package is not installed.
    """
    if threads < 1:
        raise EngineError(f"threads must be at least 1, got {threads}")
    existing(path)
    spec = engine_spec(engine or default_engine(path))
    if Path(path).suffix.lower() not in spec.suffixes:
        raise ModelFileError(f"engine '{spec.name}' runs {', '.join(spec.suffixes)} files, got {path}")
    version = engine_version(spec.name)
    opened: Engine = importlib.import_module(spec.module).open_model(path, threads, version)
    return opened
