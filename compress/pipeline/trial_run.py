"""One trial of a sweep: the recipe with overrides, run as far as the variant that is judged.

Trials share the store with every other run: what two trials have in common is computed once, and a trial that lost its
worker finds its training state under the same key and goes on from there. The test split is never read: only stages
that lead to a torch variant run, and none of those may.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compress.errors import EdgepressError, RecipeError, StageError
from compress.models.variant import TorchVariant
from compress.pipeline.events import EventLog
from compress.pipeline.measure_first import costs
from compress.pipeline.process import interruptible
from compress.pipeline.runner import Runner
from compress.pipeline.session import session
from compress.pipeline.store import Store
from compress.recipe.loader import load_recipe
from compress.recipe.registry import Registry
from compress.recipe.schema import Node, Recipe
from compress.recipe.tuning import TuneSpec
from compress.tasks.protocol import SplitName
from tune.trial import Trial

ACCUMULATION = "accumulation"
_MOST_ACCUMULATION = 64
_SPLITS: tuple[SplitName, ...] = ("train", "validation", "calibration")
_OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError")


@dataclass(frozen=True)
class Source:
    """Where a sweep's recipe comes from. `text` is what it was when the study was made."""

    path: Path
    overrides: tuple[str, ...]
    text: str
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Bench:
    """What trials are run with."""

    source: Source
    registry: Registry
    store: Path
    device: str


def trial_overrides(spec: TuneSpec, params: Mapping[str, Any], accumulation: int = 1) -> tuple[str, ...]:
    """The overrides that make a trial, or the chosen run, of the recipe."""
    found = [f"{path}={json.dumps(params[path])}" for path in spec.space.parameters]
    stopping = spec.settings.early_stopping
    if stopping is not None:
        text = json.dumps(stopping.model_dump(mode="json"))
        found += [f"stages.{stage}.early_stopping={text}" for stage in spec.stopped]
    if accumulation > 1:
        found += [f"stages.{stage}.accumulation={accumulation}" for stage in spec.trained]
    return tuple(found)


def run_trial(trial: Trial, bench: Bench, spec: TuneSpec) -> dict[str, float]:
    """The values of a trial's objectives that were not measured before it.

    When memory is short the trial starts again with its batches in more micro-batches. Raises what the stages raise,
    TrialCut and TrialLost.
    """
    accumulation = 1
    while True:
        try:
            variant = _run(trial, bench, spec, trial_overrides(spec, trial.params, accumulation))
        except EdgepressError as error:
            if not is_out_of_memory(error) or accumulation >= _MOST_ACCUMULATION or not spec.trained:
                raise
            accumulation *= 2
            trial.note(ACCUMULATION, accumulation)
            continue
        _attach_report(trial, variant)
        return _values(trial, bench, spec, variant)


def _values(trial: Trial, bench: Bench, spec: TuneSpec, variant: TorchVariant) -> dict[str, float]:
    """The metric on validation, and the costs that were not measured first."""
    metric = spec.objectives[0][0]
    if metric not in variant.validation:
        raise StageError(f"the stage behind '{variant.name}' measured no '{metric}' on validation")
    late = [name for name, _ in spec.objectives[1:] if name not in trial.costs]
    if not late:
        return {metric: variant.validation[metric]}
    recipe = load(bench)
    data = bench.registry.tasks[recipe.task].prepare(recipe.data, recipe.seed, Store.open(bench.store).shared_data)
    return {metric: variant.validation[metric], **costs(variant, data.restricted(_SPLITS), recipe.target, late)}


def needed_for(recipe: Recipe, variant: str) -> tuple[Node, ...]:
    """The nodes that lead to a variant, in order."""
    wanted, found = {variant}, []
    for node in reversed(recipe.nodes):
        if wanted & set(node.results):
            found.append(node)
            wanted |= {*node.parents, *node.references}
    return tuple(reversed(found))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error comes from memory that was short."""
    while error is not None:
        if type(error).__name__ in _OUT_OF_MEMORY:
            return True
        error = error.__cause__ or error.__context__
    return False


def load(bench: Bench, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe with overrides behind those of the study. Raises RecipeError when its file is another one now."""
    source = bench.source
    recipe = load_recipe(source.path, bench.registry, (*source.overrides, *overrides), source.environment)
    if recipe.text != source.text:
        raise RecipeError(
            [f"{source.path}: the recipe has changed since its study was made; give the study another name, or go back"]
        )
    return recipe


def _run(trial: Trial, bench: Bench, spec: TuneSpec, overrides: Sequence[str]) -> TorchVariant:
    recipe = load(bench, overrides)
    recipe = replace(recipe, nodes=needed_for(recipe, spec.of), gates=())
    stage = recipe.nodes[-1].stage.id
    metric = spec.objectives[0][0]
    with ExitStack() as stack:
        taken = stack.enter_context(session(Store.open(bench.store)))
        log = stack.enter_context(EventLog(trial.folder / "events.jsonl", lambda event: None))
        stack.enter_context(interruptible())
        reports = Reports(trial, stage, metric)
        runner = Runner(recipe, bench.registry, taken, log, bench.device, lambda variant: None, reports)
        runner.execute()
    variant = runner.reached.variants[spec.of]
    if not isinstance(variant, TorchVariant):
        raise StageError(f"'{spec.of}' is no torch model")
    return variant


class Reports:
    """Hears a run's progress and reports the metric on validation after every epoch of one stage."""

    def __init__(self, trial: Trial, stage: str, metric: str) -> None:
        self._trial, self._stage, self._metric = trial, stage, metric
        self._last = 0

    def __call__(self, stage: str, fields: Mapping[str, Any]) -> None:
        """Raises TrialCut and TrialLost."""
        if stage != self._stage or self._metric not in fields:
            return
        # A stage that trains several times counts on; one that was continued starts where it was left.
        self._last = max(self._last + 1, int(fields.get("epoch", self._last)) + 1)
        value = fields[self._metric]
        self._trial.report(self._last, float(value) if value is not None else math.nan)


def _attach_report(trial: Trial, variant: TorchVariant) -> None:
    """A page for the dashboard: the trial's parameters, what came of it, and its course."""
    lines = [
        f"# Trial {trial.number}",
        "",
        f"`{variant.name}`, {variant.parameters} parameters, {variant.macs} MACs",
        "",
    ]
    lines += [
        "| setting | value |",
        "|---|---|",
        *(f"| `{key}` | {value} |" for key, value in trial.params.items()),
        "",
    ]
    lines += ["| validation | value |", "|---|---|", *(f"| {k} | {v:.4f} |" for k, v in variant.validation.items()), ""]
    history = variant.notes.get("history") or []
    if history:
        names = list(history[0]["validation"])
        lines += [f"| epoch | loss | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
        for record in history:
            scores = " | ".join(f"{record['validation'][name]:.4f}" for name in names)
            lines.append(f"| {record['epoch'] + 1} | {record['loss']:.4f} | {scores} |")
    path = trial.folder / "report.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    trial.attach(path)
