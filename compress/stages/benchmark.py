"""Measures exported files on the test split, in the engines that ship: quality, latency, memory, against a baseline.

All files are timed in one interleaved run at equal threads, so that any two of them can be compared. The torch models
that the files came from answer the same samples once, to show where quality went; that is never a file's quality.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from compress.errors import EnvironmentProblem, StageError
from compress.models.variant import FileVariant, Proof, TorchVariant, Variant
from compress.recipe.nearest import suggestion
from compress.recipe.types import Boolean, Duration, EngineName, Fraction, Listed, PositiveInt, Text
from compress.stages.protocol import StageContext, StageSettings

if TYPE_CHECKING:  # settings are read without numpy and without an engine
    from torch import nn

    from compress.measurement.records import About, Subject
    from edge_runtime.benchmark import LatencyResult
    from edge_runtime.session import Session

_LATENCY_START = 0.5
"""Share of the stage's progress at which latency begins, and `_MEMORY_START` that at which memory does."""
_MEMORY_START = 0.9


class BenchmarkSettings(StageSettings):
    """What to measure. The time is bounded: `seconds` for each file, beside one pass over the test split."""

    baseline: Text | None = Field(None, description="the file to compare with; default: the first fp32 file")
    engines: Listed[EngineName] = Field(
        (), description="`litert`, `onnxruntime`, `openvino`, or a list; default: the target's engine for each format"
    )
    threads: PositiveInt = Field(1, description="threads of each engine")
    seconds: Duration = Field(3.0, gt=0, description="longest time of timing, for each file")
    width: Fraction = Field(
        0.02, gt=0, description="timing ends early when the 95 % interval of every ratio is this narrow"
    )
    memory: Boolean = Field(True, description="measure peak memory, in a fresh process for each file")


@dataclass(frozen=True)
class Planned:
    """One measurement to do: a file on an engine. `key` is the variant's name, with `@engine` off its default one."""

    key: str
    variant: FileVariant
    engine: str
    default: bool


class BenchmarkStage:
    """All files in, one proof out."""

    name: ClassVar[str] = "benchmark"
    Settings: type[StageSettings] = BenchmarkSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "all"
    parents: ClassVar[Literal["torch", "file"]] = "file"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "proof"
    measures: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = (
        *("torch", "torchvision", "numpy", "pillow"),
        *("ai-edge-litert", "onnxruntime", "openvino"),
    )

    def result_names(self, stage_id: str, parents: Sequence[str], settings: BenchmarkSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: BenchmarkSettings) -> tuple[str, ...]:
        return () if settings.baseline is None else (settings.baseline,)

    def run(
        self, parents: Sequence[Variant], settings: BenchmarkSettings, context: StageContext
    ) -> tuple[Variant, ...]:
        from compress.measurement.quality import predict
        from compress.measurement.records import Raw, assemble
        from compress.report.proof import write_proof

        files = files_to_measure(parents, settings, context.variants)
        planned = plan(files, settings, context.target.engines)
        baseline = baseline_key(planned, settings.baseline)
        subjects, sessions = _open(planned, settings.threads)
        predictions = predict(
            sessions,
            _torch_models(files),
            context.data,
            lambda share: context.progress("quality on the test split", fraction=share * _LATENCY_START),
        )
        context.progress(f"latency of {len(sessions)} files, interleaved", fraction=_LATENCY_START)
        latency = _time(sessions, baseline, settings, context)
        memory = _memory(planned, settings, context)
        about = _about(context, settings, baseline, latency)
        proof = assemble(subjects, Raw(predictions, latency, memory), about)
        write_proof(proof, context.output)
        name = context.names[0]
        return (Proof(name, _digest(context.output), context.output, tuple(parent.name for parent in parents)),)


def files_to_measure(
    parents: Sequence[Variant], settings: BenchmarkSettings, variants: Mapping[str, Variant]
) -> list[FileVariant]:
    """The parents, and the baseline where it is none of them."""
    chosen = list(parents)
    if settings.baseline is not None and settings.baseline not in {parent.name for parent in parents}:
        if settings.baseline not in variants:
            hint = suggestion(settings.baseline, [parent.name for parent in parents])
            raise StageError(f"the baseline {settings.baseline!r} is not among the files to measure{hint}")
        chosen.append(variants[settings.baseline])
    files = [variant for variant in chosen if isinstance(variant, FileVariant)]
    if wrong := [variant.name for variant in chosen if not isinstance(variant, FileVariant)]:
        raise StageError(f"expected exported files to measure, got {', '.join(wrong)}")
    return files


def plan(files: Sequence[FileVariant], settings: BenchmarkSettings, defaults: Mapping[str, str]) -> list[Planned]:
    """Which file is measured on which engine. `defaults` names the target's engine for each format.

    Raises StageError for an engine that is not known, and for a file that no engine asked for can run.
    """
    from edge_runtime.engines import engine_spec
    from edge_runtime.errors import EngineError

    planned = []
    for variant in files:
        default = defaults[variant.format]
        try:
            wanted = [engine_spec(name) for name in settings.engines or (default,)]
        except EngineError as error:
            raise StageError(str(error)) from error
        able = [spec.name for spec in wanted if variant.path.suffix in spec.suffixes]
        if not able:
            raise StageError(f"{variant.name}: none of the engines {', '.join(settings.engines)} runs {variant.format}")
        for engine in able:
            key = variant.name if engine == default else f"{variant.name}@{engine}"
            planned.append(Planned(key, variant, engine, engine == default))
    return planned


def baseline_key(planned: Sequence[Planned], baseline: str | None) -> str:
    """Key of the baseline: on its default engine where that is measured, else on the first that is.

    Without a name, the first fp32 file; without one, the first file.
    """
    if baseline is None:
        floats = [entry for entry in planned if entry.variant.precision == "fp32"]
        return (floats or list(planned))[0].key
    of_name = sorted(
        (entry for entry in planned if entry.variant.name == baseline), key=lambda entry: not entry.default
    )
    return of_name[0].key


def _open(planned: Sequence[Planned], threads: int) -> tuple[list[Subject], dict[str, Session]]:
    from compress.measurement.records import Subject
    from edge_runtime.errors import EdgeRuntimeError, EngineMissingError
    from edge_runtime.session import open_session

    subjects, sessions = [], {}
    for entry in planned:
        try:
            session = open_session(entry.variant.path, entry.engine, threads, entry.variant.contract)
        except EngineMissingError as error:
            raise EnvironmentProblem(f"{entry.key}: {error}") from error
        except EdgeRuntimeError as error:
            raise StageError(f"{entry.key}: {error}") from error
        sessions[entry.key] = session
        subjects.append(Subject(entry.key, entry.variant, session.engine, entry.default))
    return subjects, sessions


def _torch_models(files: Sequence[FileVariant]) -> dict[str, nn.Module]:
    from compress.models.saved import load_model

    parents: dict[str, TorchVariant] = {variant.parent.name: variant.parent for variant in files}
    return {name: load_model(parent.directory, verify=parent.digest) for name, parent in parents.items()}


def _time(
    sessions: Mapping[str, Session], baseline: str, settings: BenchmarkSettings, context: StageContext
) -> dict[str, LatencyResult]:
    """One interleaved run of all files, each on the first test sample in the dtype that the file takes."""
    from compress.measurement.quality import in_layout
    from edge_runtime.benchmark import interleave

    sample = next(iter(context.data.evaluation_batches("test", 1, limit=1))).inputs.numpy()
    runs: dict[str, Callable[[], object]] = {}
    for key, session in sessions.items():
        stored = session.quantize([in_layout(sample, session.contract.inputs[0])])
        runs[key] = partial(session.engine.run, stored)
    return interleave(
        runs,
        baseline,
        max_seconds=settings.seconds * len(runs),
        width=settings.width,
        seed=context.seed,
    )


def _memory(planned: Sequence[Planned], settings: BenchmarkSettings, context: StageContext) -> dict[str, int]:
    """Peak memory by key, two processes at a time; nothing is being timed meanwhile."""
    from edge_runtime.errors import EngineError
    from edge_runtime.memory import peak_memory

    if not settings.memory:
        return {}
    context.progress("peak memory", fraction=_MEMORY_START)

    def one(entry: Planned) -> int:
        try:
            return peak_memory(entry.variant.path, entry.engine, settings.threads)
        except EngineError as error:
            raise StageError(f"{entry.key}: {error}") from error

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip([entry.key for entry in planned], pool.map(one, planned), strict=True))


def _about(
    context: StageContext, settings: BenchmarkSettings, baseline: str, latency: Mapping[str, LatencyResult]
) -> About:
    from compress.measurement.machine import describe
    from compress.measurement.records import About

    timed = latency[baseline]
    return About(
        proof=context.names[0],
        metric=context.task.metric,
        baseline=baseline,
        labels=context.data.labels,
        skipped=context.data.info("test").skipped,
        threads=settings.threads,
        seed=context.seed,
        machine=describe(timed.load_before, timed.load_after),
    )


def _digest(directory: Path) -> str:
    from compress.report.proof import MEASUREMENTS, SAMPLES

    digest = hashlib.sha256()
    for name in (MEASUREMENTS, SAMPLES):
        digest.update(hashlib.sha256((directory / name).read_bytes()).digest())
    return digest.hexdigest()


STAGE = BenchmarkStage()
