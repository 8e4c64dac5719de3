"""A made-up proof, built from samples by the code that real proofs go through: two networks, cut and whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from compress.measurement.quality import Predictions
from compress.measurement.records import About, Raw, Subject, assemble
from compress.models.variant import FileVariant, TorchVariant
from compress.recipe.schema import Node, Recipe, StageSpec
from compress.report.model import Machine
from compress.report.proof import MeasuredProof
from edge_runtime.benchmark import interleave
from edge_runtime.contract import Contract, InputContract, OutputContract
from export.request import Inspection, Parity

LABELS = ("circle", "square", "star", "cross")
SAMPLES = 400
CONTRACT = Contract(
    task="image-classification",
    inputs=(InputContract("input", (1, 1, 4, 4), "float32", "NCHW"),),
    outputs=(OutputContract("output", (1, len(LABELS)), "float32", "logits"),),
    labels=LABELS,
)


def torch_variant(name: str, parameters: int, lineage: tuple[str, ...] = ()) -> TorchVariant:
    return TorchVariant(
        name=name,
        digest=f"digest-of-{name}",
        directory=Path(name),
        contract=CONTRACT,
        parameters=parameters,
        macs=parameters * 10,
        lineage=lineage,
        validation={"accuracy": 0.97},
        notes={"epochs": 4},
    )


BASELINE = torch_variant("baseline", 1_000_000)
PRUNED = torch_variant("pruned", 450_000, ("baseline",))
STUDENT = torch_variant("student", 280_000, ("baseline", "pruned"))


def file_variant(
    directory: Path, parent: TorchVariant, format_: str, precision: str, size: int, **changes: Any
) -> FileVariant:
    path = directory / f"{parent.name}-{format_}-{precision}.{format_}"
    path.write_bytes(b"\0" * size)
    int8 = 1.0 if precision.startswith("int8") else 0.0
    values: dict[str, Any] = {
        "name": f"{parent.name}/{format_}-{precision}",
        "digest": f"sha-of-{path.name}",
        "path": path,
        "format": format_,
        "precision": precision,
        "contract": CONTRACT,
        "parameters": parent.parameters,
        "macs": parent.macs,
        "lineage": (*parent.lineage, parent.name),
        "parent": parent,
        "parity": Parity(32, 1e-5, 1e-6, 90.0, 1.0),
        "inspection": Inspection({"CONV_2D": 3}, int(size * 0.9), parent.macs, int8, int8, 2, 0),
        "scheme": "s8s8 per-channel" if int8 else "float",
        "notes": {"calibration": {"count": 64}} if int8 else {},
    }
    return FileVariant(**(values | changes))


class _Clock:
    """A clock that the timed functions move: timing without sleeping, the same on every machine."""

    def __init__(self) -> None:
        self.now = 0
        self.rng = np.random.default_rng(7)

    def run(self, milliseconds: float) -> None:
        self.now += int(milliseconds * 1e6 * self.rng.uniform(0.99, 1.01))

    def __call__(self) -> int:
        return self.now


def make_proof(
    directory: Path,
    files: dict[str, tuple[FileVariant, str, float, float]],
    baseline: str,
    *,
    timed: bool = True,
    name: str = "proof",
) -> MeasuredProof:
    """`files` by key: the variant, its engine, its median milliseconds, and the share of samples it gets wrong.

    Wrong answers are nested: a file with a larger share gets wrong what one with a smaller share does, and more.
    """
    targets = np.arange(SAMPLES) % len(LABELS)
    order = np.random.default_rng(3).permutation(SAMPLES)
    predicted = {}
    for key, (_, _, _, wrong) in files.items():
        answers = targets.copy()
        missed = order[: round(wrong * SAMPLES)]
        answers[missed] = (answers[missed] + 1) % len(LABELS)
        predicted[key] = answers
    torch = {variant.parent.name: targets.copy() for variant, *_ in files.values()}
    clock = _Clock()
    runs = {key: (lambda ms=ms: clock.run(ms)) for key, (_, _, ms, _) in files.items()}
    latency = interleave(runs, baseline, max_seconds=5, clock=clock, seed=1) if timed else {}
    subjects = [
        Subject(key, variant, _engine(engine), "@" not in key) for key, (variant, engine, _, _) in files.items()
    ]
    about = About(
        proof=name,
        metric="accuracy",
        baseline=baseline,
        labels=LABELS,
        skipped=(),
        threads=1,
        seed=0,
        machine=Machine(processor="a processor", cores=2, governor=None, load_before=0.1, load_after=0.2),
    )
    memory = {key: 50_000_000 + len(key) for key in files}
    return assemble(subjects, Raw(Predictions(targets, predicted, torch), latency, memory), about)


def _engine(name: str) -> Any:
    return SimpleNamespace(name=name, version="1.0", delegate="xnnpack" if name == "litert" else "cpu", threads=1)


def chain_proof(directory: Path, **options: Any) -> MeasuredProof:
    """baseline, pruned and student, each as TFLite in fp32 and INT8; INT8 is slower than float, as on older CPUs."""
    files = {}
    for parent, size, fp32_ms, wrong in (
        (BASELINE, 4000, 10.0, 0.02),
        (PRUNED, 1800, 5.0, 0.03),
        (STUDENT, 1100, 3.0, 0.02),
    ):
        for precision, share, slower in (("fp32", 1.0, 1.0), ("int8", 0.26, 1.14)):
            variant = file_variant(directory, parent, "tflite", precision, int(size * share))
            extra = 0.0 if precision == "fp32" else 0.0025
            files[variant.name] = (variant, "litert", fp32_ms * slower, wrong + extra)
    return make_proof(directory, files, "baseline/tflite-fp32", **options)


def recipe(gates: tuple[Any, ...] = (), reference: str | None = "compression-table") -> Recipe:
    """The chain as a recipe: train, prune, distill, export, benchmark."""
    spec = {
        "baseline": StageSpec("baseline", "train", None, (), None),
        "pruned": StageSpec("pruned", "prune", None, ("baseline",), None),
        "student": StageSpec("student", "distill", None, ("pruned",), None),
        "files": StageSpec("files", "export", None, ("baseline", "pruned", "student"), None),
        "proof": StageSpec("proof", "benchmark", None, ("files",), None),
    }
    torch = ("baseline", "pruned", "student")
    files = {name: (f"{name}/tflite-fp32", f"{name}/tflite-int8") for name in torch}
    nodes = (
        Node(spec["baseline"], (), (), ("baseline",)),
        Node(spec["pruned"], ("baseline",), (), ("pruned",)),
        Node(spec["student"], ("pruned",), ("baseline",), ("student",)),
        *(Node(spec["files"], (name,), (), files[name]) for name in torch),
        Node(spec["proof"], tuple(file for name in torch for file in files[name]), (), ("proof",)),
    )
    return Recipe(
        path=Path("recipe.yaml"),
        name="chain",
        seed=0,
        task="image-classification",
        data=None,
        target="host",
        stages=tuple(spec.values()),
        nodes=nodes,
        gates=gates,
        reference=reference,
        canonical={"recipe": 1, "name": "chain"},
        text="recipe: 1\n",
    )
