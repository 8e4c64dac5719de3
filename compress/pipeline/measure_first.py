"""What an architecture costs, found before it is trained: its weights are drawn, and everything else is as it will be.

Only a network that the judged stage itself builds is known beforehand; what pruning leaves depends on trained weights,
and is measured afterwards. Size and latency are those of the float ONNX file in the default engine on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compress.errors import StageError
from compress.models.variant import TorchVariant
from compress.pipeline.files import digest_of, write_atomically
from compress.pipeline.key import canonical, stage_seed
from compress.pipeline.store import Store
from compress.recipe.registry import Registry
from compress.recipe.schema import Node, Recipe

_PARITY = 8
_SECONDS = 5.0
_TIME_LIMIT = 900.0


def node_of(recipe: Recipe, variant: str) -> Node:
    """The node that gives a variant."""
    return next(node for node in recipe.nodes if variant in node.results)


def can_measure_first(recipe: Recipe, variant: str) -> bool:
    """Whether the stage behind a variant builds its network from settings alone."""
    return getattr(node_of(recipe, variant).stage.settings, "model", None) is not None


def measure_first(
    recipe: Recipe, registry: Registry, store: Path, variant: str, names: Sequence[str], folder: Path
) -> dict[str, float]:
    """The costs in `names` of a recipe's variant: `parameters`, `macs`, `size` in bytes, `latency` in seconds.

    Equal architectures are measured once and keep their figures, in a file in `folder`. Raises StageError when the
    network cannot be built or converted.
    """
    from compress.models.network import new_network, save_variant

    node = node_of(recipe, variant)
    task = registry.tasks[recipe.task]
    data = task.prepare(recipe.data, recipe.seed, Store.open(store).shared_data)
    data = data.restricted(("train", "validation", "calibration"))
    model = canonical(node.stage.settings.model, registry)
    known = folder / f"costs-{digest_of([model, data.digest, sorted(names)])[:32]}.json"
    if known.is_file():
        stored: dict[str, float] = json.loads(known.read_text())
        return stored
    seed = stage_seed(recipe.seed, node.stage.id)
    network = new_network(node.stage.settings.model, task.model_arguments(data), seed=seed)
    with tempfile.TemporaryDirectory(prefix="edgepress-") as place:
        saved = save_variant(
            network, name=variant, directory=Path(place) / "model", contract=task.contract(data), lineage=(),
            validation={},
        )  # fmt: skip
        found = costs(saved, data, recipe.target, names)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(known, json.dumps(found))
    return found


def costs(variant: TorchVariant, data: Any, target: str, names: Sequence[str]) -> dict[str, float]:
    """What a torch variant costs. `data` gives samples on which a converted file is checked. Raises StageError."""
    found = {"parameters": float(variant.parameters), "macs": float(variant.macs)}
    if {"size", "latency"} & set(names):
        with tempfile.TemporaryDirectory(prefix="edgepress-") as place:
            path = _file(variant, data, target, Path(place))
            found["size"] = float(path.stat().st_size)
            if "latency" in names:
                found["latency"] = _latency(path)
    return {name: found[name] for name in names}


def _file(variant: TorchVariant, data: Any, target: str, place: Path) -> Path:
    from compress.measurement.samples import in_layout, write_samples
    from export.convert import convert
    from export.errors import ConversionError
    from export.request import ConversionRequest, ModuleSource

    parity, _ = write_samples(data, variant.contract, "validation", _PARITY, place / "parity.npy", pool=_PARITY)
    arguments = {"directory": str(variant.directory), "verify": variant.digest}
    request = ConversionRequest(
        source=ModuleSource("compress.models.saved:load_model", arguments),
        contract=in_layout(variant.contract, "NCHW"),
        format="onnx",
        precisions=("fp32",),
        output_directory=str(place / "onnx"),
        parity=str(parity),
        target=target,
    )
    (place / "onnx").mkdir()
    try:
        (file,) = convert(request, timeout=_TIME_LIMIT).files
    except ConversionError as error:
        raise StageError(f"the network cannot be converted: {error}") from error
    return Path(file.path)


def _latency(path: Path) -> float:
    """Median seconds of one inference, one thread, in a process of its own: an engine and a framework that trains do

    not go well together in one that lives for a whole sweep.
    """
    command = [sys.executable, "-m", "edge_runtime", "benchmark", str(path), "--seconds", str(_SECONDS), "--json"]
    done = subprocess.run(
        command, env=child_environment(), capture_output=True, text=True, timeout=_TIME_LIMIT, check=False
    )
    if done.returncode != 0:
        cause = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise StageError(f"the latency of the network cannot be measured: {cause}")
    (row,) = json.loads(done.stdout)["models"].values()
    return float(row["latency_ms"]["median"]) / 1000


def child_environment() -> dict[str, str]:
    """The environment of a child, which finds our packages where this process found them, installed or not."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
