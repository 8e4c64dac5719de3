"""Runs a recipe: the Python API `compress.run`, and what `python -m compress run` calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compress.errors import ExitCode
from compress.pipeline.events import Event
from compress.recipe.registry import Registry

Listener = Callable[[Event], None]


@dataclass(frozen=True)
class RunResult:
    """How a run ended. `exit_code` is 0 only when every stage ended well and every gate passed.

    `computed` and `reused` count executions of stages. `message` is what the user should read last; for a failed
    stage its last line is the cause.
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
    raise NotImplementedError
