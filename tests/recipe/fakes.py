"""Small stages, tasks and sources, so that recipes can be tested without the ones that compute."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from compress.recipe.model_reference import FUNCTION_SOURCE, ModelReference
from compress.recipe.registry import Registry
from compress.recipe.types import (
    Boolean,
    ByteSize,
    Duration,
    EngineName,
    Fraction,
    InputFile,
    InputFolder,
    Listed,
    OneOrMany,
    PositiveFloat,
    PositiveInt,
    Text,
)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Stopping(Settings):
    patience: PositiveInt = Field(description="Epochs without a better result.")


class TrainSettings(Settings):
    """Trains a network from fresh weights."""

    model: ModelReference
    epochs: PositiveInt = Field(description="Passes over the training data.")
    batch_size: int = Field(64, ge=1)
    learning_rate: PositiveFloat = 1e-3
    optimizer: Literal["adamw", "sgd", "rmsprop"] = "adamw"
    precision: Literal["auto", "fp32"] = "auto"
    nesterov: Boolean = False
    steps: Literal["auto"] | PositiveInt = "auto"
    warmup: Fraction | None = None
    freeze: Annotated[tuple[str, ...], Field(strict=False)] = ()
    early_stopping: Stopping | None = None
    pause: Duration = 0.0
    memory: ByteSize = 2**20
    weights: InputFile | None = None
    label: str = ""
    accumulation: int = 1
    pair: Annotated[tuple[int, ...], Field(min_length=2)] = (1, 2)

    @model_validator(mode="after")
    def _micro_batches_hold_a_sample(self) -> TrainSettings:
        if self.accumulation > self.batch_size:
            raise ValueError("accumulation must not exceed batch_size")
        return self


class Reduce(Settings):
    parameters: Fraction | None = None
    macs: Fraction | None = None


class Step(Settings):
    layer: Text
    ratio: Fraction


class PruneSettings(Settings):
    reduce: Reduce = Reduce()
    recover: Stopping | None = None
    steps: Listed[Step] = ()


class DistillSettings(Settings):
    teacher: Text
    epochs: PositiveInt = 1


class ExportSettings(Settings):
    format: OneOrMany[Literal["onnx", "tflite"]] = ("onnx",)
    precision: OneOrMany[Literal["fp32", "int8", "int8-mixed"]] = ("fp32",)


class BenchmarkSettings(Settings):
    baseline: Text | None = None
    engines: Listed[EngineName] = ()


class _Stage:
    packages: ClassVar[tuple[str, ...]] = ()
    measures: ClassVar[bool] = False
    gives: ClassVar[str] = "torch"
    parents: ClassVar[str] = "torch"
    takes: ClassVar[str] = "each"
    Settings: ClassVar[type[BaseModel]]

    def result_names(self, stage_id: str, parents: Sequence[str], settings: Any) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: Any) -> tuple[str, ...]:
        return ()


class Train(_Stage):
    name = "train"
    Settings = TrainSettings
    takes = "nothing"


class Prune(_Stage):
    name = "prune"
    Settings = PruneSettings


class Distill(_Stage):
    name = "distill"
    Settings = DistillSettings

    def references(self, settings: DistillSettings) -> tuple[str, ...]:
        return (settings.teacher,)


class Export(_Stage):
    name = "export"
    Settings = ExportSettings
    gives = "file"

    def result_names(self, stage_id: str, parents: Sequence[str], settings: ExportSettings) -> tuple[str, ...]:
        return tuple(f"{parents[0]}/{f}-{p}" for f in settings.format for p in settings.precision)


class Benchmark(_Stage):
    name = "benchmark"
    Settings = BenchmarkSettings
    takes = "all"
    parents = "file"
    gives = "proof"
    measures = True

    def references(self, settings: BenchmarkSettings) -> tuple[str, ...]:
        return () if settings.baseline is None else (settings.baseline,)


class TorchvisionSettings(Settings):
    name: Text
    stem: Literal["default", "small"] = "default"


class FunctionSettings(Settings):
    function: Text
    arguments: dict[str, Any] = {}


class DigitsSettings(Settings):
    limit: PositiveInt | None = None


class FolderSettings(Settings):
    source: Literal["image-folder"] = "image-folder"
    folder: InputFolder
    mean: Listed[float] = ()


def registry() -> Registry:
    stages = (Train(), Prune(), Distill(), Export(), Benchmark())
    return Registry(
        stages={stage.name: stage for stage in stages},
        tasks={"image-classification": SimpleNamespace(name="image-classification", metric="accuracy")},
        model_sources={"torchvision": TorchvisionSettings, FUNCTION_SOURCE: FunctionSettings},
        data_sources={"image-classification": {"digits": DigitsSettings, "image-folder": FolderSettings}},
        targets=("host", "x86-avx2", "arm-cortex-a76"),
        references=("compression-table",),
    )


CHAIN = """\
recipe: 1
name: chain
seed: 3
task: image-classification
data: {source: digits}
stages:
  - id: baseline
    use: train
    model: {source: torchvision, name: resnet18}
    epochs: 4
    learning_rate: 2e-3
  - id: pruned
    use: prune
    reduce: {parameters: 72%, macs: 0.65}
  - id: student
    use: distill
    teacher: baseline
  - id: files
    use: export
    from: [baseline, pruned, student]
    format: [onnx, tflite]
    precision: [fp32, int8]
  - id: proof
    use: benchmark
    baseline: baseline/tflite-fp32
gates:
  - {of: student/tflite-int8, quality_drop: {metric: accuracy, max: 1%}, size_reduction: {min: 91.7%}}
reference: compression-table
"""
