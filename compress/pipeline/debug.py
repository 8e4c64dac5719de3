"""The INT8 file of a run against the float file of the same network, on samples of the run's own data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compress.errors import RecipeError
from compress.measurement.quality import in_layout
from compress.pipeline.store import default_store
from compress.recipe.nearest import suggestion
from compress.tasks.protocol import DataSet
from edge_runtime.session import Session, open_session
from export.debug import Diagnosis, diagnose

_BATCH = 16


def debug(run: Path, variant: str, *, samples: int = 16, store: Path | None = None) -> Diagnosis:
    """Compares on the first `samples` of the validation split; the test split is not read.

    Raises RecipeError when the folder holds no run, the variant is no int8 file of it, or the run has no fp32 file of
    the same network and format.
    """
    int8_file, float_file = find_files(run, variant)
    data = _data(run, store)
    sessions = open_session(float_file), open_session(int8_file)
    return diagnose(float_file, int8_file, _inputs(data, samples, *sessions))


def find_files(run: Path, variant: str) -> tuple[Path, Path]:
    """The INT8 file and its float file in a run's folder."""
    root = run / "variants"
    if not root.is_dir():
        raise RecipeError([f"{run}: expected a run's folder, with `variants` in it"])
    known = {
        path.parent.relative_to(root).as_posix(): path
        for suffix in ("onnx", "tflite")
        for path in sorted(root.rglob(f"model-*.{suffix}"))
    }
    int8 = [name for name, path in known.items() if path.stem == "model-int8"]
    if variant not in int8:
        raise RecipeError([f"{run} has no int8 file '{variant}'{suggestion(variant, int8)}"])
    path = known[variant]
    parent = variant.rpartition("/")[0]
    floats = [
        other
        for name, other in known.items()
        if other.name == f"model-fp32{path.suffix}" and name.rpartition("/")[0] == parent
    ]
    if not floats:
        wanted = f"{run} has no fp32 file of {parent or variant} as {path.suffix[1:]} to compare with"
        raise RecipeError([f"{wanted}: add fp32 to `precision`"])
    return path, floats[0]


def _data(run: Path, store: Path | None) -> DataSet:
    """The run's data, prepared as it was then."""
    from compress.pipeline.registry import installed_registry
    from compress.recipe.loader import load_recipe

    registry = installed_registry()
    recipe = load_recipe(run / "recipe.yaml", registry, environment=dict(os.environ))
    folder = (store if store is not None else default_store()) / "shared" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    data: DataSet = registry.tasks[recipe.task].prepare(recipe.data, recipe.seed, folder)
    return data.restricted(("validation",))


def _inputs(
    data: DataSet, samples: int, float_session: Session, int8_session: Session
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    for batch in data.evaluation_batches("validation", _BATCH, limit=samples):
        for sample in batch.inputs.numpy():
            yield tuple(  # type: ignore[misc]
                session.quantize([np.ascontiguousarray(in_layout(sample[None], session.contract.inputs[0]))])[0]
                for session in (float_session, int8_session)
            )
