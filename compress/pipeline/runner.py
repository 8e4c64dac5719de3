"""Executes a recipe's stages in order: from the store where it can, else computed and stored at once."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from compress.models.variant import Variant
from compress.pipeline.cost import Spent, append_history, predict, read_history, work_of
from compress.pipeline.events import EventLog
from compress.pipeline.execution import Job, Obtained, obtain
from compress.pipeline.failures import as_failure
from compress.pipeline.key import Surroundings, data_ingredients, ingredients, stage_seed
from compress.pipeline.process import free_memory, resolve_device, seed_everything
from compress.pipeline.reached import Executed, Reached
from compress.pipeline.record import Record
from compress.pipeline.session import Session
from compress.pipeline.sources import SourceReader
from compress.pipeline.store import Attempt
from compress.pipeline.text import duration
from compress.pipeline.timing import StageClock
from compress.recipe.registry import Registry
from compress.recipe.schema import Node, Recipe
from compress.report.model import StageRecord
from compress.stages.protocol import Progress, StageContext
from compress.tasks.protocol import DataSet, SplitName, Task

_SPLITS: tuple[SplitName, ...] = ("train", "validation", "calibration", "test")
_WITHOUT_TEST = _SPLITS[:3]


@dataclass(frozen=True)
class _Turn:
    """One node with all that it takes. `place` goes with its events."""

    position: int
    node: Node
    data: DataSet
    surroundings: Surroundings
    parents: tuple[Variant, ...]
    references: dict[str, Variant]
    place: dict[str, Any]


class Runner:
    """One run of one recipe. `on_variant` is called with every variant as soon as it exists.

    `on_progress` gets every progress of a stage (its id, and the fields), of which the log leaves out what comes too
    fast to be read; it may end the run by raising.
    """

    def __init__(
        self,
        recipe: Recipe,
        registry: Registry,
        session: Session,
        log: EventLog,
        device: str,
        on_variant: Callable[[Variant], None],
        on_progress: Callable[[str, Mapping[str, Any]], None] = lambda stage, fields: None,
    ) -> None:
        self.reached = Reached()
        self._recipe = recipe
        self._registry = registry
        self._session = session
        self._store = session.store
        self._log = log
        self._device = device
        self._on_variant = on_variant
        self._on_progress = on_progress
        self._history = read_history(self._store.history)

    def execute(self) -> None:
        """Runs every node. Raises EdgepressError that names the stage and ends with the cause, or KeyboardInterrupt."""
        data, surroundings = self._prepare()
        self.reached.surroundings = surroundings
        for position, node in enumerate(self._recipe.nodes):
            parents = tuple(self.reached.variants[name] for name in node.parents)
            references = {name: self.reached.variants[name] for name in node.references}
            place = {"position": position + 1, "steps": len(self._recipe.nodes), "results": node.results}
            self._run_node(_Turn(position, node, data, surroundings, parents, references, place))

    def _prepare(self) -> tuple[DataSet, Surroundings]:
        """The data, once for the whole run; of several processes one prepares it and the rest find it prepared."""
        from export.targets import resolve_target

        recipe, registry, reader = self._recipe, self._registry, SourceReader()
        task: Task = registry.tasks[recipe.task]
        try:
            target = resolve_target(recipe.target)
            key = data_ingredients(recipe, registry, reader)
            waiting = "another run prepares the data; waiting"
            with self._store.locked(f"data-{key}", lambda: self._log("stage-waiting", waiting, "data")):
                data = task.prepare(recipe.data, recipe.seed, self._store.shared_data)
                self._store.remember_data(key, data.digest)
            self.reached.data = _describe(data)
        except Exception as error:
            raise as_failure(error, "preparing the data", self._store.path) from error
        counts = ", ".join(f"{split} {info['count']}" for split, info in self.reached.data["splits"].items())
        self._log("data-prepared", f"data: {counts}", digest=data.digest)
        return data, Surroundings(recipe, registry, target, data.digest, reader)

    def _run_node(self, turn: _Turn) -> None:
        node, started, key = turn.node, time.monotonic(), None
        try:
            found = ingredients(node, turn.surroundings, turn.parents, tuple(turn.references.values()))
            key = found.key()
            obtained = obtain(
                Job(key, found, (*turn.parents, *turn.references.values())),
                self._session,
                lambda attempt: self._compute(turn, attempt),
                lambda: self._log("stage-waiting", "another run computes it; waiting", node.stage.id, key=key),
                lambda why: self._log("warning", f"the stored result of {_name(node)} is damaged: {why}; computing it"),
            )
        except Exception as error:
            failure = as_failure(error, _name(node), self._store.path)
            self.reached.stages.append(_record(node, key, time.monotonic() - started, error=str(failure)))
            trace = "".join(traceback.format_exception(error))
            self._log("stage-failed", str(failure), node.stage.id, **turn.place, key=key, traceback=trace)
            raise failure from error
        self._take(turn, obtained, time.monotonic() - started)

    def _compute(self, turn: _Turn, attempt: Attempt) -> tuple[Variant, ...]:
        """What to do when the result is not in the store. The lock of its key is held."""
        node, stage = turn.node, self._registry.stages[turn.node.stage.use]
        how = f"{_what(node)}, continued from an earlier attempt" if attempt.resumed else _what(node)
        self._log("stage-started", how, node.stage.id, **turn.place)
        self.reached.device = self.reached.device or resolve_device(self._device)
        seed = stage_seed(self._recipe.seed, node.stage.id)
        seed_everything(seed, stage.packages)
        context = StageContext(
            stage_id=node.stage.id,
            names=node.results,
            seed=seed,
            task=self._registry.tasks[self._recipe.task],
            data=turn.data if stage.measures else turn.data.restricted(_WITHOUT_TEST),
            target=turn.surroundings.target,
            device=self.reached.device,
            work=attempt.state,
            output=attempt.output,
            shared=self._store.shared_stages,
            progress=self._progress(turn),
            variants=turn.references,
        )
        return tuple(stage.run(turn.parents, node.stage.settings, context))

    def _progress(self, turn: _Turn) -> Progress:
        def expected(node: Node) -> float:
            return predict(node, self._recipe.name, turn.surroundings.data_digest, self._history).seconds

        clock = StageClock(expected(turn.node), sum(map(expected, self._recipe.nodes[turn.position + 1 :])))

        def progress(message: str, *, fraction: float | None = None, **fields: Any) -> None:
            self._on_progress(turn.node.stage.id, fields)
            left = clock.update(fraction)
            if left is not None:
                times = {} if fraction is None else {"fraction": fraction, **left}
                self._log("stage-progress", message, turn.node.stage.id, **{**fields, **times})

        return progress

    def _take(self, turn: _Turn, obtained: Obtained, seconds: float) -> None:
        """Enters a result into what the run has reached, and what it cost into the history."""
        node, record = turn.node, obtained.record
        self.reached.variants |= {variant.name: variant for variant in obtained.variants}
        self.reached.stages.append(_record(node, record.key, seconds, cached=obtained.reused))
        digests = {variant.name: variant.digest for variant in obtained.variants}
        seed = record.provenance["seed"]
        self.reached.executed.append(Executed(node.stage.id, node.stage.use, record.key, seed, digests))
        self.reached.versions |= record.provenance["versions"]
        for variant in obtained.variants:
            self._on_variant(variant)
        names = ", ".join(node.results)
        common = {**turn.place, "key": record.key, "digests": digests}
        if obtained.reused:
            self._log("stage-reused", f"from the store: {names}", node.stage.id, **common)
            return
        message = f"done in {duration(record.seconds)}: {names}"
        self._log("stage-finished", message, node.stage.id, **common, seconds=record.seconds)
        free_memory()
        if not obtained.resumed:  # the rest of a resumed stage says nothing about a whole one
            self._remember_cost(turn, record)

    def _remember_cost(self, turn: _Turn, record: Record) -> None:
        node = turn.node
        spent = Spent(
            use=node.stage.use,
            stage=node.stage.id,
            recipe=self._recipe.name,
            data=turn.surroundings.data_digest,
            work=work_of(node),
            results=len(node.results),
            seconds=record.seconds,
            disk_bytes=record.size,
        )
        with suppress(OSError):  # a prediction is not worth a failed run
            append_history(self._store.history, spent)


def _what(node: Node) -> str:
    """`prune of baseline`; `train` for a stage without parents."""
    return f"{node.stage.use} of {', '.join(node.parents)}" if node.parents else node.stage.use


def _name(node: Node) -> str:
    """`stage 'pruned' (prune of baseline)`."""
    return f"stage '{node.stage.id}' ({_what(node)})"


def _record(
    node: Node, key: str | None, seconds: float, *, cached: bool = False, error: str | None = None
) -> StageRecord:
    return StageRecord(
        id=node.stage.id, use=node.stage.use, results=node.results, key=key, cached=cached, seconds=seconds, error=error
    )


def _describe(data: DataSet) -> dict[str, Any]:
    """The data as a report shows it: its digest, and the size and composition of each split."""
    infos = {split: data.info(split) for split in _SPLITS}
    return {
        "digest": data.digest,
        "labels": list(data.labels),
        "splits": {
            split: {"count": info.count, "per_class": dict(info.per_class), "skipped": list(info.skipped)}
            for split, info in infos.items()
        },
    }
