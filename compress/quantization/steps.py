"""Quantization-aware training from end to end: first ranges, the score without training, training, the way back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.distillation.objective import distillation_objective
from compress.distillation.teacher import open_teacher
from compress.distillation.teacher_outputs import TeacherOutputs
from compress.errors import StageError
from compress.models.network import Network
from compress.models.variant import TorchVariant
from compress.quantization.settings import QuantizeKeys
from compress.tasks.protocol import DataSet, Task
from compress.training.freeze import find_modules
from compress.training.loop import TrainingResult, train
from export.targets import Target

if TYPE_CHECKING:
    from torch import Tensor

    from compress.quantization.network import QuantizedNetwork
    from compress.training.progress import Progress
    from compress.training.run import Objective

LEVELS = {7: 64, 8: 127}


@dataclass(frozen=True)
class Surroundings:
    """What the work needs beside the network and its settings; as in a stage's context."""

    task: Task
    data: DataSet
    target: Target
    seed: int
    device: str
    work: Path
    shared: Path
    progress: Progress


@dataclass(frozen=True)
class Gain:
    """The task's metric on validation: of the float parent, and of the fake-quantized network untrained and trained.

    Both of the latter are estimates made in torch; what a file scores, `benchmark` measures.
    """

    metric: str
    parent: float
    ptq: float
    qat: float

    @property
    def verdict(self) -> str:
        return "gain" if self.qat > self.ptq else "no gain"


@dataclass(frozen=True)
class Outcome:
    """`network` has the trained weights and, in its architecture, the scales that belong to them."""

    network: Network
    validation: dict[str, float]
    gain: Gain
    notes: dict[str, Any]


def quantize(network: Network, parent: TorchVariant, settings: QuantizeKeys, around: Surroundings) -> Outcome:
    """Trains with fake quantization. The same arguments give the same bytes; a killed run continues.

    Raises StageError when the network cannot be traced, a `freeze` pattern matches nothing, or the loss is no longer
    finite.
    """
    from compress.quantization.network import learned, quantized, write_back

    levels = LEVELS[_bits(settings, around.target)]
    find_modules(network.module, settings.freeze)  # before anything is computed
    sample = _sample(around)
    steps = int(_forward_passes(settings, around.data) * settings.freeze_ranges)
    simulated, folds = quantized(network.module, sample, levels=levels, steps=steps)
    ptq = _calibrate(simulated, settings, around)
    result = _train(simulated, parent, settings, around)
    write_back(simulated, network.module, folds)
    _check(simulated, network, sample)
    metric = around.task.metric
    gain = Gain(metric, parent.validation[metric], ptq[metric], result.validation[metric])
    around.progress(
        f"validation {metric}: float {gain.parent:.4f}, quantized without training {gain.ptq:.4f}, "
        f"trained {gain.qat:.4f}: {gain.verdict}"
    )
    found = learned(simulated, levels)
    architecture = replace(network.architecture, quantization=found)
    notes = {
        "quantization": {
            **asdict(gain),
            "verdict": gain.verdict,
            "how": "fake quantization in torch, on the validation split",
            "weight_levels": levels,
            "points": len(found.activations),
            "layers": len(found.weights),
            "left_to_calibration": _left_out(network, {entry.layer for entry in found.weights}),
        },
        "training": _record(result),
    }
    return Outcome(Network(network.module, architecture), result.validation, gain, notes)


def _bits(settings: QuantizeKeys, target: Target) -> int:
    if settings.weight_bits != "auto":
        return settings.weight_bits
    return 7 if target.onnx_reduce_range else 8


def _sample(around: Surroundings) -> Tensor:
    """One random sample of the shape that the network takes."""
    import torch

    generator = torch.Generator().manual_seed(around.seed)
    return torch.randn(around.task.contract(around.data).inputs[0].shape, generator=generator)


def _forward_passes(settings: QuantizeKeys, data: DataSet) -> int:
    return max(1, data.info("train").count // settings.batch_size) * settings.epochs * settings.accumulation


def _calibrate(simulated: QuantizedNetwork, settings: QuantizeKeys, around: Surroundings) -> dict[str, float]:
    """First ranges from the calibration split, evenly spread; then what quantization costs without training."""
    import torch

    simulated.to(around.device)
    simulated.set_phase("calibrate")
    every = max(1, around.data.info("calibration").count // settings.calibration)
    position = 0
    with torch.no_grad():
        for batch in around.data.evaluation_batches("calibration", settings.evaluation_batch_size):
            chosen = batch.inputs[-position % every :: every]
            position += len(batch.inputs)
            if len(chosen):
                simulated(chosen.to(around.device))
    if position == 0:
        raise StageError("the calibration split gave no sample")
    simulated.set_phase("quantize")
    size = settings.evaluation_batch_size
    validation = around.task.evaluate(simulated, around.data, "validation", size, around.device)
    simulated.cpu()
    return validation


def _train(
    simulated: QuantizedNetwork, parent: TorchVariant, settings: QuantizeKeys, around: Surroundings
) -> TrainingResult:
    return train(
        simulated,
        around.task,
        around.data,
        settings,
        seed=around.seed,
        device=around.device,
        work=around.work / "quantized",
        progress=around.progress,
        objective=_objective(parent, settings, around) if settings.distill else None,
    )


def _objective(parent: TorchVariant, settings: QuantizeKeys, around: Surroundings) -> Objective:
    teacher = open_teacher(
        parent, around.task, around.data, settings.evaluation_batch_size, around.device, around.progress
    )
    outputs = TeacherOutputs(
        teacher,
        around.data,
        settings,
        seed=around.seed,
        device=around.device,
        folder=around.shared / "teacher-outputs",
        keep=settings.keep_outputs,
    )
    return distillation_objective(around.task, outputs, settings, settings.label_smoothing)


def _check(simulated: QuantizedNetwork, network: Network, sample: Tensor) -> None:
    """The network with its weights written back computes what the trained one does without rounding."""
    from export.fold import same_function

    simulated.set_phase("off")
    same = same_function(simulated.eval(), network.module.eval(), sample)
    simulated.set_phase("quantize")
    if not same:
        raise StageError("the trained weights, written back into the network, do not compute what was trained")


def _left_out(network: Network, quantized: set[str]) -> list[str]:
    """Layers with weights whose rounding training did not see; the file takes their ranges from calibration."""
    from torch import nn

    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.modules.conv._ConvTransposeNd)
    return [
        path for path, layer in network.module.named_modules() if isinstance(layer, kinds) and path not in quantized
    ]


def _record(result: TrainingResult) -> dict[str, Any]:
    return {
        **result.notes,
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "history": [asdict(record) for record in result.history],
    }
