"""A task and stages without a framework, quick and deterministic, for tests of the pipeline.

`FAKE_LOG` names a file that gets a line for every stage that runs; `FAKE_FAIL` names a stage that fails, and how.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from compress.errors import DataError, EnvironmentProblem, StageError
from compress.models.variant import FileVariant, Proof, TorchVariant, Variant
from compress.pipeline.files import sha256, tree_sha256, write_atomically
from compress.recipe.registry import Registry
from compress.recipe.types import InputFile, InputFolder, OneOrMany
from compress.stages.protocol import StageContext, StageSettings
from compress.tasks.protocol import SplitInfo, SplitName
from edge_runtime.contract import Contract, InputContract, OutputContract
from export.request import Format, Inspection, Parity, Precision

CONTRACT = Contract(
    task="fake",
    inputs=(InputContract("x", (1, 4), "float32", "ND"),),
    outputs=(OutputContract("y", (1, 2), "float32", "logits"),),
    labels=("no", "yes"),
)


class FolderSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    source: Literal["folder"] = "folder"
    folder: InputFolder
    scale: float = 1.0


@dataclass(frozen=True)
class FakeData:
    digest: str
    readable: tuple[SplitName, ...] = ("train", "validation", "calibration", "test")
    labels: tuple[str, ...] = CONTRACT.labels

    def info(self, split: SplitName) -> SplitInfo:
        return SplitInfo(split, 2, {"no": 1, "yes": 1}, ())

    def restricted(self, splits: Sequence[SplitName]) -> FakeData:
        return FakeData(self.digest, tuple(splits))

    def training_batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Any]:
        raise NotImplementedError

    def evaluation_batches(self, split: SplitName, batch_size: int, limit: int | None = None) -> Iterator[Any]:
        raise NotImplementedError


class FakeTask:
    name = "fake"
    metric = "accuracy"
    DataSettings = FolderSettings

    def prepare(self, settings: FolderSettings, seed: int, cache: Path) -> FakeData:
        log("prepare")
        if not any(settings.folder.iterdir()):
            raise DataError(f"{settings.folder} is empty")
        digest = tree_sha256(settings.folder)
        write_atomically(cache / f"{digest}.json", "{}")
        return FakeData(digest)


class MakeSettings(StageSettings):
    size: int = 2000
    steps: int = 3
    epochs: int | None = None
    pause: float = 0.0
    loss: str | None = Field(None, description="module:function")
    weights: InputFile | None = None
    note: str = ""


class Make:
    """Starts a recipe: bytes that depend on the seed, the settings and the data, in steps that can be resumed."""

    name: ClassVar[str] = "make"
    Settings: type[StageSettings] = MakeSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "nothing"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    def result_names(self, stage_id: str, parents: Sequence[str], settings: MakeSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: MakeSettings) -> tuple[str, ...]:
        return ()

    def run(self, parents: Sequence[Variant], settings: MakeSettings, context: StageContext) -> tuple[Variant, ...]:
        log(f"{context.stage_id} {os.getpid()}")
        fail(context.stage_id)
        value = step_through(context, settings.steps, settings.pause, f"{settings.size} {settings.note}")
        builder = {"source": "module:function", "arguments": {"function": settings.loss}} if settings.loss else None
        return (torch_variant(context, context.names[0], value, settings.size, (), builder),)


class CutSettings(StageSettings):
    keep: float = 0.5
    steps: int = 2
    pause: float = 0.0
    teacher: str | None = None


class Cut:
    """A torch variant from a torch variant, and from a teacher when the settings name one."""

    name: ClassVar[str] = "cut"
    Settings: type[StageSettings] = CutSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()

    def result_names(self, stage_id: str, parents: Sequence[str], settings: CutSettings) -> tuple[str, ...]:
        return tuple(stage_id if len(parents) == 1 else f"{parent}-{stage_id}" for parent in parents)

    def references(self, settings: CutSettings) -> tuple[str, ...]:
        return (settings.teacher,) if settings.teacher is not None else ()

    def run(self, parents: Sequence[Variant], settings: CutSettings, context: StageContext) -> tuple[Variant, ...]:
        log(f"{context.stage_id} {os.getpid()}")
        fail(context.stage_id)
        (parent,) = parents
        assert isinstance(parent, TorchVariant)
        content = (parent.directory / "weights.safetensors").read_bytes()
        for teacher in context.variants.values():
            assert isinstance(teacher, TorchVariant)
            content += (teacher.directory / "weights.safetensors").read_bytes()
        value = step_through(context, settings.steps, settings.pause, hashlib.sha256(content).hexdigest())
        size = int(parent.parameters * settings.keep)
        builder = json.loads((parent.directory / "architecture.json").read_text())["builder"]
        return (torch_variant(context, context.names[0], value, size, parent.lineage, builder),)


class PackSettings(StageSettings):
    format: OneOrMany[Format] = ("onnx",)
    precision: OneOrMany[Precision] = ("fp32",)
    pause: float = 0.0


class Pack:
    """Files from a torch variant."""

    name: ClassVar[str] = "pack"
    Settings: type[StageSettings] = PackSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "file"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()

    def result_names(self, stage_id: str, parents: Sequence[str], settings: PackSettings) -> tuple[str, ...]:
        kinds = [f"{format_}-{precision}" for format_ in settings.format for precision in settings.precision]
        return tuple(f"{parent}/{kind}" for parent in parents for kind in kinds)

    def references(self, settings: PackSettings) -> tuple[str, ...]:
        return ()

    def run(self, parents: Sequence[Variant], settings: PackSettings, context: StageContext) -> tuple[Variant, ...]:
        log(f"{context.stage_id} {os.getpid()}")
        fail(context.stage_id)
        (parent,) = parents
        assert isinstance(parent, TorchVariant)
        weights = (parent.directory / "weights.safetensors").read_bytes()
        kinds = [(format_, precision) for format_ in settings.format for precision in settings.precision]
        variants = []
        for name, (format_, precision) in zip(context.names, kinds, strict=True):
            time.sleep(settings.pause)
            path = context.output / format_ / f"model-{precision}.{format_}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(f"{format_} {precision} ".encode() + weights)
            path.with_suffix(".contract.json").write_text(json.dumps({"labels": CONTRACT.labels}))
            variants.append(file_variant(name, path, format_, precision, parent))
        return tuple(variants)


class WeighSettings(StageSettings):
    runs: int = 1


class Weigh:
    """Measures files; may read the test split."""

    name: ClassVar[str] = "weigh"
    Settings: type[StageSettings] = WeighSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "all"
    parents: ClassVar[Literal["torch", "file"]] = "file"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "proof"
    measures: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ()

    def result_names(self, stage_id: str, parents: Sequence[str], settings: WeighSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: WeighSettings) -> tuple[str, ...]:
        return ()

    def run(self, parents: Sequence[Variant], settings: WeighSettings, context: StageContext) -> tuple[Variant, ...]:
        from compress.report.proof import write_proof
        from tests.report.made_up import make_proof

        log(f"{context.stage_id} {os.getpid()}")
        fail(context.stage_id)
        files = [parent for parent in parents if isinstance(parent, FileVariant)]
        measured = {file.name: (file, "litert", file.parameters / 1000, 0.02) for file in files}
        write_proof(make_proof(context.output, measured, files[0].name, name=context.names[0]), context.output)
        lineage = tuple(parent.name for parent in parents)
        return (Proof(context.names[0], tree_sha256(context.output), context.output, lineage),)


def registry() -> Registry:
    return Registry(
        stages={stage.name: stage for stage in (Make(), Cut(), Pack(), Weigh())},
        tasks={"fake": FakeTask()},
        model_sources={},
        data_sources={"fake": {"folder": FolderSettings}},
        targets=("host", "x86-avx2", "arm-cortex-a53", "arm-cortex-a76"),
        references=(),
    )


def step_through(context: StageContext, steps: int, pause: float, salt: str) -> str:
    """A chain of hashes whose last link is known after every step; continues where a killed attempt was."""
    path = context.work / "state.json"
    state = json.loads(path.read_text()) if path.exists() else {"step": 0, "value": f"{context.seed} {salt}"}
    for step in range(state["step"], steps):
        time.sleep(pause)
        value = hashlib.sha256(f"{state['value']} {context.data.digest}".encode()).hexdigest()
        state = {"step": step + 1, "value": value}
        write_atomically(path, json.dumps(state))
        context.progress(f"step {step + 1} of {steps}", fraction=(step + 1) / steps, value=value)
    return str(state["value"])


def torch_variant(
    context: StageContext,
    name: str,
    value: str,
    size: int,
    lineage: tuple[str, ...],
    builder: dict[str, Any] | None = None,
) -> TorchVariant:
    folder = context.output / "model"
    folder.mkdir()
    (folder / "architecture.json").write_text(json.dumps({"size": size, "builder": builder}))
    (folder / "weights.safetensors").write_bytes((value * (size // len(value) + 1)).encode()[:size])
    notes = {"value": value, "splits": getattr(context.data, "readable", ()), "device": context.device}
    return TorchVariant(
        name, tree_sha256(folder), folder, CONTRACT, size, 2 * size, (*lineage, name), {"accuracy": 0.5}, notes
    )


def file_variant(name: str, path: Path, format_: Format, precision: Precision, parent: TorchVariant) -> FileVariant:
    return FileVariant(
        name=name,
        digest=sha256(path),
        path=path,
        format=format_,
        precision=precision,
        contract=CONTRACT,
        parameters=parent.parameters,
        macs=parent.macs,
        lineage=(*parent.lineage, name),
        parent=parent,
        parity=Parity(2, 0.0, 0.0, 90.0, 1.0),
        inspection=Inspection({"MatMul": 1}, parent.parameters, parent.macs, 0.0, 0.0, 0, 0),
        scheme="float",
    )


def log(line: str) -> None:
    path = os.environ.get("FAKE_LOG")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def fail(stage_id: str) -> None:
    """Fails the way that FAKE_FAIL asks for, when it asks for this stage: `stage:kind`."""
    wanted, _, kind = os.environ.get("FAKE_FAIL", "").partition(":")
    if wanted == stage_id:
        raise FAILURES[kind]()


FAILURES: Mapping[str, Callable[[], BaseException]] = {
    "stage": lambda: StageError("the loss is not finite at step 3"),
    "bug": lambda: KeyError("layer9"),
    "environment": lambda: EnvironmentProblem("onnx 0.1 clashes with protobuf 9"),
    "missing": lambda: ModuleNotFoundError("No module named 'litert_torch'", name="litert_torch"),
    "memory": MemoryError,
    "full": lambda: OSError(28, "No space left on device"),
    "interrupt": KeyboardInterrupt,
}
