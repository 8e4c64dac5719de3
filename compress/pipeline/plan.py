"""What a run would do, decided without doing it: steps, store hits, predicted time and disk. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compress.models.variant import Variant
from compress.pipeline.cost import Prediction, Spent, predict, read_history
from compress.pipeline.key import Surroundings, data_ingredients, ingredients
from compress.pipeline.registry import installed_registry
from compress.pipeline.serialize import from_json
from compress.pipeline.sources import SourceReader
from compress.pipeline.store import Store, default_store
from compress.pipeline.text import duration, shortened, size, table
from compress.pipeline.user_code import check_user_code
from compress.recipe.loader import load_recipe
from compress.recipe.registry import Registry
from compress.recipe.schema import Node, Recipe

State = Literal["stored", "to compute", "unknown"]


@dataclass(frozen=True)
class Step:
    """One execution of a stage.

    `state`: `stored` is served from the store; `to compute` is not there; `unknown` depends on a parent that has to
    be computed first (if the parent comes out equal to an earlier one, the step is served after all). `key` is None
    where it is not known yet. `prediction` is None for a stored step.
    """

    stage: str
    use: str
    parents: tuple[str, ...]
    results: tuple[str, ...]
    state: State
    key: str | None
    prediction: Prediction | None
    last_failure: str | None = None


@dataclass(frozen=True)
class Plan:
    """Steps in the order in which they run. `note` says what could not be known, e.g. that the data is new."""

    recipe: str
    store: Path
    steps: tuple[Step, ...]
    note: str | None = None

    @property
    def seconds(self) -> float:
        """Predicted wall time of what is not stored."""
        return sum(step.prediction.seconds for step in self.steps if step.prediction is not None)

    @property
    def disk_bytes(self) -> int:
        """Predicted growth of the store."""
        return sum(step.prediction.disk_bytes for step in self.steps if step.prediction is not None)


def plan(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    store: Path | None = None,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Plans a run of a recipe. Writes nothing anywhere, imports no framework. Raises RecipeError."""
    registry = registry if registry is not None else installed_registry()
    loaded = load_recipe(recipe, registry, overrides, environment)
    return plan_recipe(loaded, registry, store=store)


def plan_recipe(recipe: Recipe, registry: Registry, *, store: Path | None = None) -> Plan:
    """`plan` for a recipe that is loaded already.

    The data is not prepared. Its digest is the one that a run took from the same settings and files (told by name,
    size and time of change); without one nothing can be looked up, and every step counts as to be computed.
    """
    from export.targets import resolve_target

    check_user_code(recipe)
    opened = Store(store if store is not None else default_store())
    opened.check_version()
    history = read_history(opened.history)
    reader = SourceReader()
    digest = opened.known_data(data_ingredients(recipe, registry, reader))
    if digest is None:
        steps = tuple(_step(node, recipe, None, history, "to compute", None) for node in recipe.nodes)
        note = "the data is new here, or has changed" if history else None
        return Plan(recipe.name, opened.path, steps, note)
    surroundings = Surroundings(recipe, registry, resolve_target(recipe.target), digest, reader)
    known: dict[str, Variant] = {}
    planned = [_look_up(node, surroundings, opened, history, known) for node in recipe.nodes]
    return Plan(recipe.name, opened.path, tuple(planned))


def _look_up(
    node: Node, surroundings: Surroundings, store: Store, history: Sequence[Spent], known: dict[str, Variant]
) -> Step:
    """The step of a node; enters the variants of a stored one into `known`."""
    recipe, digest = surroundings.recipe, surroundings.data_digest
    taken = (*node.parents, *node.references)
    if any(name not in known for name in taken):
        return _step(node, recipe, digest, history, "unknown", None)
    parents = tuple(known[name] for name in node.parents)
    references = tuple(known[name] for name in node.references)
    key = ingredients(node, surroundings, parents, references).key()
    record = store.peek(key)
    if record is None:
        failure = store.failure(key)
        return _step(node, recipe, digest, history, "to compute", key, failure.error if failure is not None else None)
    try:
        variants = [from_json(item, store.output(key), (*parents, *references)) for item in record.variants]
    except (ValueError, KeyError, TypeError):  # a run will drop it and compute it again
        return _step(node, recipe, digest, history, "to compute", key)
    known.update({variant.name: variant for variant in variants})
    return Step(node.stage.id, node.stage.use, node.parents, node.results, "stored", key, None)


def _step(
    node: Node,
    recipe: Recipe,
    data: str | None,
    history: Sequence[Spent],
    state: State,
    key: str | None,
    failure: str | None = None,
) -> Step:
    prediction = predict(node, recipe.name, data, history)
    return Step(node.stage.id, node.stage.use, node.parents, node.results, state, key, prediction, failure)


def render_plan(plan: Plan) -> str:
    """The plan as a table for a terminal, with totals."""
    rows = [("stage", "technique", "from", "results", "store", "time", "disk")]
    for step in plan.steps:
        rows.append(
            (
                step.stage,
                step.use,
                shortened(step.parents),
                shortened(step.results),
                {"stored": "stored", "to compute": "compute", "unknown": "compute, or stored"}[step.state],
                _time(step.prediction) if step.prediction is not None else "-",
                _disk(step.prediction) if step.prediction is not None else "-",
            )
        )
    lines = table(rows)
    stored = sum(step.state == "stored" for step in plan.steps)
    lines.append("")
    lines.append(f"{stored} of {len(plan.steps)} steps are in the store ({plan.store})")
    if stored == len(plan.steps):
        lines.append("nothing to do")
    else:
        rough = any(step.prediction is not None and step.prediction.basis == "rough" for step in plan.steps)
        lines.append(f"predicted: {duration(plan.seconds)}, {size(plan.disk_bytes)} of disk")
        if rough:
            lines.append("~ rough: no such stage has run in this store yet; the figures are the quickstart's")
    lines += [f"note: {plan.note}"] if plan.note else []
    lines += [f"failed last time: {step.stage}: {step.last_failure}" for step in plan.steps if step.last_failure]
    return "\n".join(lines)


def _time(prediction: Prediction) -> str:
    return ("~" if prediction.basis == "rough" else "") + duration(prediction.seconds)


def _disk(prediction: Prediction) -> str:
    return ("~" if prediction.basis == "rough" else "") + size(prediction.disk_bytes)
