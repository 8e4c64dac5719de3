"""One execution of a stage: served from the store, waited for, or computed and stored."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from compress.errors import StageError
from compress.models.variant import FileVariant, Variant
from compress.pipeline.events import now
from compress.pipeline.files import sha256
from compress.pipeline.key import Ingredients
from compress.pipeline.record import Failure, Record
from compress.pipeline.serialize import from_json, to_json
from compress.pipeline.session import Session
from compress.pipeline.store import Attempt, Damaged, Served

Compute = Callable[[Attempt], tuple[Variant, ...]]
"""Runs the stage with the folders of an attempt."""


@dataclass(frozen=True)
class Job:
    """What to obtain. `given` are the variants that the stage takes, parents and references."""

    key: str
    ingredients: Ingredients
    given: tuple[Variant, ...]


@dataclass(frozen=True)
class Obtained:
    """The variants of a job, their files in the store. `resumed`: an earlier attempt had left state to go on from."""

    variants: tuple[Variant, ...]
    record: Record
    reused: bool
    resumed: bool = False


def obtain(
    job: Job,
    session: Session,
    compute: Compute,
    on_wait: Callable[[], None],
    on_damage: Callable[[str], None],
) -> Obtained:
    """The result of a job. Of several processes that want the same, one computes it and the others wait and reuse it.

    A stored result is used only after every file of it was checked; a damaged one is dropped (`on_damage` is told) and
    computed again. What `compute` raises is recorded as the last failure of the key, and raised.
    """
    found = _find(job, session)
    if isinstance(found, Obtained):
        return found
    with session.store.locked(job.key, on_wait):
        found = _find(job, session)
        if isinstance(found, Obtained):
            return found
        if isinstance(found, Damaged):
            on_damage(found.reason)
            session.store.drop(found)
        return _compute(job, session, compute)


def _find(job: Job, session: Session) -> Obtained | Damaged | None:
    served = session.find(job.key)
    if not isinstance(served, Served):
        return served
    try:
        return Obtained(_variants(job, served), served.record, reused=True)
    except (ValueError, KeyError, TypeError) as error:  # pydantic's errors are ValueErrors
        return Damaged(job.key, f"its record does not describe its variants ({error})")


def _variants(job: Job, served: Served) -> tuple[Variant, ...]:
    return tuple(from_json(variant, served.folder, job.given) for variant in served.record.variants)


def _compute(job: Job, session: Session, compute: Compute) -> Obtained:
    store = session.store
    started = monotonic()
    attempt = store.attempt(job.key)
    try:
        variants = compute(attempt)
        _check(variants, job.ingredients)
        record = Record(
            key=job.key,
            stage=job.ingredients.stage,
            use=job.ingredients.use,
            created=now(),
            seconds=monotonic() - started,
            variants=tuple(to_json(variant, attempt.output) for variant in variants),
            provenance=job.ingredients.to_json(),
        )
        served = store.commit(record, attempt.output)
    except BaseException as error:
        store.abandon(attempt)
        if isinstance(error, Exception):
            with suppress(OSError):  # a full disk has no room for the record either
                store.fail(Failure(job.key, job.ingredients.stage, now(), _text(error), _trace(error)))
        raise
    # Read back like a later run will read them, so that a first run and a second one see the same variants.
    return Obtained(_variants(job, served), served.record, reused=False, resumed=attempt.resumed)


def _check(variants: tuple[Variant, ...], ingredients: Ingredients) -> None:
    """Raises StageError unless the stage gave what the plan promised and every file has the digest it is said to."""
    names = tuple(variant.name for variant in variants)
    if names != ingredients.names:
        raise StageError(f"it gave {', '.join(names) or 'nothing'} where {', '.join(ingredients.names)} was planned")
    for variant in variants:
        if isinstance(variant, FileVariant):
            if not variant.path.is_file():
                raise StageError(f"'{variant.name}' has no file: {variant.path.name} was not written")
            if sha256(variant.path) != variant.digest:
                raise StageError(f"the file of '{variant.name}' does not have the digest that the stage gave for it")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))
