"""Sweeps: the section `tune` of a recipe carried out by `tune`, and the run that follows with the best values.

`sweep` makes the study and its workers; `make` is what a worker process, here or on another machine, calls to find out
what to do. Both see the same recipe: the study keeps its text, and a file that differs is refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compress.errors import RecipeError
from compress.pipeline.events import Listener
from compress.pipeline.files import digest_of
from compress.pipeline.measure_first import can_measure_first, child_environment, measure_first
from compress.pipeline.process import check_device, interruptible
from compress.pipeline.registry import installed_registry
from compress.pipeline.run import RunResult, run_recipe
from compress.pipeline.store import default_store
from compress.pipeline.trial_run import ACCUMULATION, Bench, Source, load, needed_for, run_trial, trial_overrides
from compress.pipeline.user_code import check_user_code
from compress.recipe.loader import load_recipe
from compress.recipe.registry import Registry
from compress.recipe.schema import Recipe
from compress.recipe.tuning import TuneSpec
from tune.errors import EveryTrialFailed, StorageUnreachable, TuneError
from tune.results import Limit, Record, best, pareto, records, status_text
from tune.settings import Objective, Pruner, StudySettings
from tune.storage import open_storage
from tune.study import OpenStudy, create
from tune.trial import Trial, Work
from tune.worker import Options, work

FUNCTION = "compress.pipeline.sweep:make"
FOLDER = "tune"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended. `best` is the chosen trial, `overrides` what make the recipe it; `front` the Pareto front of

    several objectives. `run` is the run with the best values, None when none was asked for.
    """

    study: str
    storage: str
    trials: tuple[Record, ...]
    best: Record
    overrides: tuple[str, ...]
    front: tuple[Record, ...]
    run: RunResult | None


def sweep(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    workers: int = 1,
    store: Path | None = None,
    runs: Path | None = None,
    device: str = "auto",
    then_run: bool = True,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
    tell: Tell = lambda line: None,
    listener: Listener | None = None,
) -> SweepResult:
    """Searches, and runs the recipe with the best values found.

    A sweep that was interrupted goes on: trials that have ended are kept, those that lost their worker continue from
    their training state. With more than one worker each is a process of its own; more can join from anywhere by
    `python -m tune worker`.

    Raises RecipeError for a wrong recipe or one without `tune`, StudyChanged when the study of this name searched
    something else, StorageUnreachable, and EveryTrialFailed.
    """
    check_device(device)
    registry = registry if registry is not None else installed_registry()
    loaded = load_recipe(recipe, registry, overrides, environment)
    check_user_code(loaded)
    spec = _spec(loaded)
    store = store if store is not None else default_store()
    source = Source(loaded.path.absolute(), tuple(overrides), loaded.text, environment)
    bench = Bench(source, registry, store.absolute(), device)
    url = spec.settings.storage or str(store.absolute() / FOLDER / f"{_study_name(loaded, spec)}.journal")
    opened = create(open_storage(url), study_settings(loaded, bench))
    tell(f"{opened.settings.name}: {opened.settings.trials} trials in {url}")
    options = Options(bench.store / FOLDER, timeout=spec.settings.timeout)
    if workers == 1:
        with interruptible():
            work(opened, _work(bench, loaded, opened.settings), options, tell)
    else:
        _processes(url, opened, options, workers)
    return _finish(opened, bench, spec, url, runs if then_run else None, then_run, tell, listener)


def make(payload: Mapping[str, Any]) -> Work:
    """What a worker does with the trials of a sweep, from what the study holds. Raises RecipeError."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    source = Source(Path(payload["path"]), tuple(payload["overrides"]), payload["text"])
    registry = installed_registry()
    bench = Bench(source, registry, Path(payload["store"]), payload["device"])
    recipe = load(bench)
    check_user_code(recipe)
    return _work(bench, recipe, study_settings(recipe, bench))


def study_settings(recipe: Recipe, bench: Bench) -> StudySettings:
    """The study that a recipe asks for."""
    spec = _spec(recipe)
    section = spec.settings
    pruner = Pruner(section.pruner) if isinstance(section.pruner, str) else Pruner(**section.pruner.model_dump())
    first = can_measure_first(recipe, spec.of)
    objectives = tuple(
        Objective(name, direction, measured_first=first and index > 0)
        for index, (name, direction) in enumerate(spec.objectives)
    )
    payload = {
        "path": str(bench.source.path),
        "overrides": list(bench.source.overrides),
        "text": bench.source.text,
        "store": str(bench.store),
        "device": bench.device,
    }
    return StudySettings(
        name=_study_name(recipe, spec),
        space=spec.space,
        objectives=objectives,
        trials=section.trials,
        sampler=section.sampler,
        pruner=pruner,
        seed=recipe.seed,
        function=FUNCTION,
        payload=payload,
        identity=identity(recipe, spec),
    )


def identity(recipe: Recipe, spec: TuneSpec) -> str:
    """Digest of all that trials have in common: stages, data, seed.

    Gates, and stages behind the judged one, may change; what is searched differs in every trial.
    """
    wanted = {node.stage.id for node in needed_for(recipe, spec.of)}
    stages = []
    for stage in recipe.canonical["stages"]:
        if stage["id"] in wanted:
            searched = [path.split(".")[2:] for path in spec.space.parameters if path.split(".")[1] == stage["id"]]
            stages.append(_without(stage, searched))
    stopping = spec.settings.early_stopping
    common = {key: recipe.canonical[key] for key in ("seed", "task", "data", "target")}
    return digest_of([common, stages, spec.of, stopping.model_dump() if stopping is not None else None])


def _without(section: Mapping[str, Any], paths: Sequence[Sequence[str]]) -> dict[str, Any]:
    """A section without the values at some paths."""
    kept: dict[str, Any] = {}
    for key, value in section.items():
        below = [path[1:] for path in paths if path[0] == key]
        if [] not in below:
            kept[key] = _without(value, below) if below and isinstance(value, Mapping) else value
    return kept


def _spec(recipe: Recipe) -> TuneSpec:
    if recipe.tune is None:
        raise RecipeError(
            [f"{recipe.path}: the recipe has no section `tune`; `tune: {{}}` searches learning rate and batch size"]
        )
    return recipe.tune


def _study_name(recipe: Recipe, spec: TuneSpec) -> str:
    return spec.settings.study or recipe.name


def _work(bench: Bench, recipe: Recipe, settings: StudySettings) -> Work:
    spec = _spec(recipe)
    names = tuple(objective.name for objective in settings.objectives if objective.measured_first)

    def objective(trial: Trial) -> Mapping[str, float]:
        return run_trial(trial, bench, spec)

    def measure(params: Mapping[str, Any]) -> Mapping[str, float]:
        trial = load(bench, trial_overrides(spec, params))
        folder = bench.store / FOLDER / settings.name
        return measure_first(trial, bench.registry, bench.store, spec.of, names, folder)

    return Work(objective, measure if names else None)


def _processes(url: str, opened: OpenStudy, options: Options, workers: int) -> None:
    """Worker processes until the study is done. One that is killed is replaced. Raises TuneError when one gives up."""
    started = 0
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        nonlocal started
        command = [sys.executable, "-m", "tune", "worker", url, "--study", opened.settings.name]
        command += ["--folder", str(options.folder), "--index", str(started)]
        command += [] if options.timeout is None else ["--timeout", str(options.timeout)]
        started += 1
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=child_environment())

    try:
        with interruptible():
            running += [start() for _ in range(workers)]
            while running:
                process = running[0]
                try:
                    code = process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    running.append(running.pop(0))
                    continue
                running.pop(0)
                if code < 0 and started < workers + opened.settings.trials:
                    running.append(start())  # killed from outside: its trial is offered again
                elif code != 0:
                    raise _ENDED.get(code, TuneError)(
                        f"a worker of '{opened.settings.name}' ended with exit code {code}; it said why above"
                    )
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


_ENDED: dict[int, type[TuneError]] = {3: EveryTrialFailed, 5: StorageUnreachable}


def _finish(
    opened: OpenStudy,
    bench: Bench,
    spec: TuneSpec,
    url: str,
    runs: Path | None,
    then_run: bool,
    tell: Tell,
    listener: Listener | None,
) -> SweepResult:
    found = records(opened)
    pick = {name: Limit(limit.value, limit.at_most) for name, limit in spec.pick.items()}
    chosen = best(found, opened.settings, pick)
    tell(status_text(opened))
    frozen = opened.study.get_trials(deepcopy=False)[chosen.number]
    overrides = trial_overrides(spec, chosen.params, frozen.user_attrs.get(ACCUMULATION, 1))
    tell(f"chosen: trial {chosen.number}: " + " ".join(f"--set {override}" for override in overrides))
    front = tuple(pareto(found, opened.settings)) if len(opened.settings.objectives) > 1 else ()
    result = SweepResult(opened.settings.name, url, found, chosen, overrides, front, None)
    if not then_run:
        return result
    recipe = load(bench, overrides)
    done = run_recipe(recipe, bench.registry, store=bench.store, runs=runs, device=bench.device, listener=listener)
    return replace(result, run=done)
