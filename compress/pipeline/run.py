"""Runs a recipe: the Python API `compress.run`, and what `python -m compress run` calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compress.errors import EdgepressError, ExitCode
from compress.models.variant import FileVariant, Variant
from compress.pipeline.events import EventLog, Listener, now
from compress.pipeline.failures import as_environment_problem
from compress.pipeline.finish import Course, Ending, finish
from compress.pipeline.process import check_device, interruptible
from compress.pipeline.progress import TerminalProgress
from compress.pipeline.reached import Reached
from compress.pipeline.registry import installed_registry
from compress.pipeline.runfolder import link_variant, run_folder, write_recipe
from compress.pipeline.runner import Runner
from compress.pipeline.session import session
from compress.pipeline.store import Store, default_store
from compress.pipeline.text import duration
from compress.pipeline.user_code import check_user_code
from compress.recipe.loader import load_recipe
from compress.recipe.registry import Registry
from compress.recipe.schema import Recipe

RUNS = Path("runs")


@dataclass(frozen=True)
class RunResult:
    """How a run ended. `exit_code` is 0 only when every stage ended well and every gate passed.

    `computed` and `reused` count executions of stages. `message` is what the user should read: the summary of the
    report, and what was done; for a failure its last line is the cause.
    """

    exit_code: ExitCode
    directory: Path
    computed: int
    reused: int
    message: str

    @property
    def passed(self) -> bool:
        return self.exit_code is ExitCode.OK


def run(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    store: Path | None = None,
    runs: Path | None = None,
    directory: Path | None = None,
    device: str = "auto",
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
    listener: Listener | None = None,
) -> RunResult:
    """Runs a recipe and reports; what is in the store already is not computed again.

    `overrides` are `path=value`, as after `--set`. The store is `.edgepress/` in the working directory, or
    $EDGEPRESS_STORE; the run gets a folder of its own, `runs/<name>/<UTC time>/`, or `directory`, which must not hold
    a run yet. `device` is `auto`, `cpu`, `cuda` or `cuda:N`. `environment` resolves `${VAR}` (default: os.environ).
    `listener` gets every event (default: progress on stderr).

    Raises RecipeError when the recipe is wrong and EnvironmentProblem when the store or the run folder is out of
    reach: then nothing has run. From there on a failure is a RunResult with an exit code other than 0, and the run
    folder holds the report of what exists.
    """
    check_device(device)
    registry = registry if registry is not None else installed_registry()
    loaded = load_recipe(recipe, registry, overrides, environment)
    return run_recipe(loaded, registry, store=store, runs=runs, directory=directory, device=device, listener=listener)


def run_recipe(
    recipe: Recipe,
    registry: Registry,
    *,
    store: Path | None = None,
    runs: Path | None = None,
    directory: Path | None = None,
    device: str = "auto",
    listener: Listener | None = None,
) -> RunResult:
    """`run` for a recipe that is loaded already."""
    check_user_code(recipe)
    opened = Store.open(store if store is not None else default_store())
    listener = listener if listener is not None else TerminalProgress(sys.stderr)
    with _out_of_reach(opened.path), ExitStack() as stack:
        folder = stack.enter_context(run_folder(recipe, runs if runs is not None else RUNS, directory))
        log = stack.enter_context(EventLog(folder / "events.jsonl", listener))
        write_recipe(recipe, folder)
        taken = stack.enter_context(session(opened))
        log("run-started", f"{recipe.name}: {folder}", steps=len(recipe.nodes), store=str(opened.path))
        paths: dict[str, str] = {}
        runner = Runner(recipe, registry, taken, log, device, lambda variant: _link(variant, folder, paths))
        started, clock = now(), time.monotonic()
        error = _execute(runner)
        seconds = time.monotonic() - clock
        ending = finish(Course(recipe, runner.reached, folder, paths, started, seconds), error, log)
        message = _message(ending, runner.reached, folder, seconds)
        if log.lost:
            log("warning", f"{log.lost} events are missing from {folder / 'events.jsonl'}: it could not be written")
        log("run-finished", message, exit_code=int(ending.exit_code), error=ending.error)
        return RunResult(ending.exit_code, folder, runner.reached.computed, runner.reached.reused, message)


def _execute(runner: Runner) -> EdgepressError | KeyboardInterrupt | None:
    try:
        with interruptible():
            runner.execute()
    except (EdgepressError, KeyboardInterrupt) as error:
        return error
    return None


def _link(variant: Variant, folder: Path, paths: dict[str, str]) -> None:
    try:
        path = link_variant(variant, folder)
    except OSError as error:
        raise as_environment_problem(error, f"linking '{variant.name}' into the run folder", folder) from error
    if isinstance(variant, FileVariant):
        paths[variant.name] = path


@contextmanager
def _out_of_reach(store: Path) -> Iterator[None]:
    """The store or the run folder cannot be written: no stage has failed, the surroundings have."""
    try:
        yield
    except OSError as error:
        raise as_environment_problem(error, "the run", store) from error


def _message(ending: Ending, reached: Reached, folder: Path, seconds: float) -> str:
    """For a run that did its work the summary of the report first; what went wrong, if anything, always last."""
    if ending.exit_code is ExitCode.INTERRUPTED:
        return f"interrupted after {duration(seconds)}; the same command continues where it stopped"
    if ending.exit_code not in (ExitCode.OK, ExitCode.GATE_FAILED):
        return ending.error or ending.exit_code.name
    results = sum(len(stage.results) for stage in reached.stages)
    stored = sum(len(stage.results) for stage in reached.stages if stage.cached)
    if reached.computed == 0:
        done = f"nothing to do: {stored} of {results} results from the store"
    else:
        done = f"done in {duration(seconds)}: {results - stored} results computed, {stored} from the store"
    lines = (ending.summary, done, f"report: {folder / 'report.md'}", ending.error)
    return "\n".join(line for line in lines if line)
