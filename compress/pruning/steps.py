"""Pruning from end to end, in phases that survive a kill: sparse training, then cut and recovery, step by step."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.distillation.objective import distillation_objective
from compress.distillation.teacher import open_teacher
from compress.distillation.teacher_outputs import TeacherOutputs
from compress.models.cost import Cost
from compress.models.network import Network
from compress.models.saved import load_model, read_architecture, save_model
from compress.models.variant import TorchVariant
from compress.pruning.batchnorm import reestimate
from compress.pruning.graph import trace
from compress.pruning.groups import ChannelGraph
from compress.pruning.importance import Scores, magnitude_scores, random_scores, scale_scores, taylor_scores
from compress.pruning.perform import perform
from compress.pruning.plan import Limits, PruningPlan, Rules, make_plan, protect
from compress.pruning.planned_cost import cost_model
from compress.pruning.settings import PruneKeys, Recovery
from compress.pruning.sparsity import sparsity_penalty
from compress.pruning.trial import proven
from compress.tasks.protocol import DataSet, Task
from compress.training.freeze import find_modules
from compress.training.loop import TrainingResult, train

if TYPE_CHECKING:
    from torch import Tensor

    from compress.training.progress import Progress


@dataclass(frozen=True)
class Surroundings:
    """What pruning needs beside the network and its settings; as in a stage's context."""

    task: Task
    data: DataSet
    multiple: int
    seed: int
    device: str
    work: Path
    shared: Path
    progress: Progress

    def seed_of(self, phase: str) -> int:
        """A seed of its own for each phase."""
        return random.Random(f"{self.seed} {phase}").getrandbits(31)


def prune(
    network: Network, parent: TorchVariant, settings: PruneKeys, around: Surroundings
) -> tuple[Network, list[dict[str, Any]]]:
    """Returns the pruned network and a record of each phase (JSON). The same arguments give the same bytes.

    Each phase leaves its result in `around.work`; called again after a kill, finished phases are read back from
    there. Raises StageError when a path to protect or to freeze matches nothing, `reduce` is out of reach, or a cut
    fails its check.
    """
    frozen = [training.freeze for training in (settings.sparsity, settings.recover) if training is not None]
    find_modules(network.module, [*settings.protect, *itertools.chain(*frozen)])  # before hours of training
    before = Cost(parent.parameters, parent.macs)
    phases: dict[str, Callable[[Network, Surroundings], dict[str, Any]]] = {}
    if settings.sparsity is not None:
        phases["sparsity"] = partial(_sparsify, settings=settings)
    for step in range(1, settings.steps + 1):
        limits = _limits(before, settings, step)
        phases[f"step-{step}"] = partial(_step, name=f"step-{step}", limits=limits, parent=parent, settings=settings)
    records = []
    for position, (name, compute) in enumerate(phases.items()):
        network, record = _phase(name, network, _part_of(around, position, len(phases)), compute)
        records.append(record)
    return network, records


def _part_of(around: Surroundings, position: int, phases: int) -> Surroundings:
    """Progress of one phase as progress of the whole."""

    def progress(message: str, *, fraction: float | None = None, **fields: Any) -> None:
        whole = None if fraction is None else (position + fraction) / phases
        around.progress(message, fraction=whole, **fields)

    return replace(around, progress=progress)


def _limits(before: Cost, settings: PruneKeys, step: int) -> Limits:
    """Costs fall evenly from step to step, to what is asked for."""
    share = step / settings.steps

    def limit(cost: int, reduction: float | None) -> int | None:
        return None if reduction is None else int(cost * (1 - reduction * share))

    return Limits(limit(before.parameters, settings.reduce.parameters), limit(before.macs, settings.reduce.macs))


def _phase(
    name: str,
    network: Network,
    around: Surroundings,
    compute: Callable[[Network, Surroundings], dict[str, Any]],
) -> tuple[Network, dict[str, Any]]:
    """Runs a phase, or reads its result back; also right after it ran, so that both ways give the same bytes."""
    folder = around.work / name
    done = folder / "done.json"
    if not done.exists():
        record = {"phase": name, **compute(network, around)}
        save_model(network.module, network.architecture, folder / "network")
        temporary = done.with_suffix(f".{os.getpid()}")
        with temporary.open("w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(done)
        shutil.rmtree(folder / "training", ignore_errors=True)
    saved = folder / "network"
    return Network(load_model(saved), read_architecture(saved)), json.loads(done.read_text())


def _sparsify(network: Network, around: Surroundings, settings: PruneKeys) -> dict[str, Any]:
    assert settings.sparsity is not None
    graph = channel_graph(network, settings, around)
    penalty = sparsity_penalty(network.module, graph, settings.sparsity.regularizer, settings.sparsity.strength)
    result = train(
        network.module,
        around.task,
        around.data,
        settings.sparsity,
        seed=around.seed_of("sparsity"),
        device=around.device,
        work=around.work / "sparsity" / "training",
        progress=around.progress,
        penalty=penalty,
    )
    return {"training": _training_record(result)}


def _step(
    network: Network, around: Surroundings, name: str, limits: Limits, parent: TorchVariant, settings: PruneKeys
) -> dict[str, Any]:
    inputs = _inputs(around)
    plan = plan_step(network, limits, settings, around)
    around.progress(
        f"{name}: parameters {plan.before.parameters} -> {plan.after.parameters}, "
        f"multiply-accumulates {plan.before.macs} -> {plan.after.macs}"
    )
    difference = perform(network, plan, inputs)
    batch_size = settings.recover.batch_size if settings.recover else 64
    batches = around.data.training_batches(batch_size, around.seed_of(f"{name} batchnorm"), 0)
    read = reestimate(network.module, batches, settings.batchnorm_batches, around.device)
    record = {"plan": _plan_record(plan), "masked_difference": difference, "batchnorm_batches": read}
    record["validation_after_cut"] = _evaluate(network, settings, around)
    if settings.recover is not None:
        record["training"] = _training_record(_recover(network, name, parent, settings.recover, around))
    return record


def plan_step(network: Network, limits: Limits, settings: PruneKeys, around: Surroundings) -> PruningPlan:
    """Decides what to cut; nothing is changed."""
    graph = channel_graph(network, settings, around)
    scores, graph = _scores(network, graph, settings, around)
    rules = Rules(settings.scope, around.multiple, settings.keep_at_least)
    costs = cost_model(network.module, _inputs(around))
    return make_plan(graph, scores, costs, limits, rules, best_effort=settings.best_effort)


def channel_graph(network: Network, settings: PruneKeys, around: Surroundings) -> ChannelGraph:
    """The groups that may be cut: traced, not protected, proven on copies."""
    inputs = _inputs(around)
    graph = protect(trace(network.module, inputs), find_modules(network.module, settings.protect))
    return proven(network.module, graph, inputs, around.seed)


def _scores(
    network: Network, graph: ChannelGraph, settings: PruneKeys, around: Surroundings
) -> tuple[Scores, ChannelGraph]:
    module = network.module
    if settings.importance in ("l1", "l2"):
        return magnitude_scores(module, graph, 1 if settings.importance == "l1" else 2), graph
    if settings.importance == "bn-scale":
        return scale_scores(module, graph)
    if settings.importance == "random":
        return random_scores(graph, around.seed), graph
    size = settings.evaluation_batch_size
    batches = around.data.evaluation_batches("calibration", size, limit=size * settings.importance_batches)
    task = around.task
    return taylor_scores(module, graph, batches, lambda o, t: task.loss(o, t, 0.0), around.device), graph


def _recover(
    network: Network, name: str, parent: TorchVariant, settings: Recovery, around: Surroundings
) -> TrainingResult:
    objective = None
    seed = around.seed_of(name)
    if settings.distill:
        teacher = open_teacher(
            parent, around.task, around.data, settings.evaluation_batch_size, around.device, around.progress
        )
        outputs = TeacherOutputs(
            teacher,
            around.data,
            settings,
            seed=seed,
            device=around.device,
            folder=around.shared / "teacher-outputs",
            keep=settings.keep_outputs,
        )
        objective = distillation_objective(around.task, outputs, settings, settings.label_smoothing)
    return train(
        network.module,
        around.task,
        around.data,
        settings,
        seed=seed,
        device=around.device,
        work=around.work / name / "training",
        progress=around.progress,
        objective=objective,
    )


def _inputs(around: Surroundings) -> Tensor:
    """One random sample of the shape that the network takes."""
    import torch

    generator = torch.Generator().manual_seed(around.seed)
    return torch.randn(around.task.contract(around.data).inputs[0].shape, generator=generator)


def _evaluate(network: Network, settings: PruneKeys, around: Surroundings) -> dict[str, float]:
    network.module.to(around.device)
    size = settings.evaluation_batch_size
    validation = around.task.evaluate(network.module, around.data, "validation", size, around.device)
    network.module.cpu()
    return validation


def _plan_record(plan: PruningPlan) -> dict[str, Any]:
    return {
        "groups": [asdict(group) for group in plan.groups],
        "excluded": [asdict(group) for group in plan.excluded],
        "before": asdict(plan.before),
        "after": asdict(plan.after),
        "reached": plan.reached,
    }


def _training_record(result: TrainingResult) -> dict[str, Any]:
    return {
        **result.notes,
        "validation": result.validation,
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "history": [asdict(record) for record in result.history],
    }
