"""Which sample belongs to which split: disjoint, stratified, a function of the seed and the contents alone.

Shared by the tasks. The order of files in a folder or of members in a shard has no influence, and neither has
adding a sample on the choice between the others, beyond the shift of the quotas.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, WithJsonSchema

from compress.errors import DataError
from compress.recipe.types import parse_percent
from compress.tasks.protocol import SplitName

SPLITS: tuple[SplitName, ...] = get_args(SplitName)
SPLIT_ALIASES: dict[str, SplitName] = {
    "train": "train", "training": "train",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
    "calibration": "calibration", "test": "test", "testing": "test",
}  # fmt: skip
"""Names that folders and shards use for splits."""


def _parse_amount(value: Any) -> int | float:
    """A count from a whole number, a share from a fraction or a percentage. Raises ValueError for the rest."""
    expected = "a number of samples like 256, or a share below 1 like 0.1 or 10%"
    if isinstance(value, bool):
        raise ValueError(f"expected {expected}")
    if isinstance(value, int) and value >= 1:
        return value
    try:
        share = parse_percent(value)
    except ValueError:
        raise ValueError(f"expected {expected}") from None
    if not 0 < share < 1:
        raise ValueError(f"expected {expected}")
    return float(share)


Amount = Annotated[
    int | float,
    BeforeValidator(_parse_amount),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": r"^\s*[0-9_.]+\s*%\s*$"},
            ],
            "description": "A number of samples, or a share.",
        }
    ),
]
"""How much of the train split is cut off for another one: `256`, `0.1` or `10%`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the decision needs to know. `digest` is the SHA-256 of the content, `given` the split the source names."""

    name: str
    digest: str
    label: int
    given: SplitName | None = None


def order_key(sample: Sample, seed: int) -> bytes:
    """A pseudo-random position; samples of equal content are neighbours, so that they can stay in one split."""
    return hashlib.sha256(f"{seed}:{sample.digest}".encode()).digest()


def decide_splits(
    samples: Sequence[Sample], labels: Sequence[str], amounts: dict[SplitName, int | float], seed: int
) -> list[SplitName]:
    """The split of each sample. Splits that the source names stay as they are; the others are cut from its train
    samples, stratified by label, with samples of equal content kept together.

    `amounts` are counts, or shares of the train samples before any cut. Raises DataError when a split would be
    empty, or when a class would be absent from train or calibration.
    """
    given = {sample.given for sample in samples if sample.given}
    pool = [index for index, sample in enumerate(samples) if sample.given in (None, "train")]
    strata: dict[int, list[int]] = defaultdict(list)
    for index in sorted(pool, key=lambda i: (order_key(samples[i], seed), samples[i].name)):
        strata[samples[index].label].append(index)
    decided: list[SplitName] = [sample.given or "train" for sample in samples]
    for split in ("test", "validation", "calibration"):
        if split in given:
            continue
        total = _count(split, amounts[split], len(pool))
        left = sum(len(stratum) for stratum in strata.values())
        if total >= left:
            raise DataError(f"cannot cut a {split} split of {total} samples: only {left} train samples are left")
        quotas = _quotas({label: len(stratum) for label, stratum in strata.items()}, total, split == "calibration")
        for label, quota in quotas.items():
            taken, strata[label] = _cut(strata[label], quota, samples)
            for index in taken:
                decided[index] = split
    _check(samples, decided, labels)
    return decided


def _count(split: str, amount: int | float, pool: int) -> int:
    count = amount if isinstance(amount, int) else round(amount * pool)
    if count < 1:
        raise DataError(f"the {split} split is empty: {amount} of {pool} train samples is less than one")
    return count


def _quotas(sizes: dict[int, int], total: int, every_class: bool) -> dict[int, int]:
    """Largest remainder method; with `every_class`, classes left out get one sample from the best served."""
    pool = sum(sizes.values())
    exact = {label: total * size / pool for label, size in sizes.items()}
    quotas = {label: int(share) for label, share in exact.items()}
    by_remainder = sorted(sizes, key=lambda label: (quotas[label] - exact[label], label))
    for label in by_remainder[: total - sum(quotas.values())]:
        quotas[label] += 1
    if every_class and total >= len(sizes):
        for label in sorted(label for label, quota in quotas.items() if quota == 0):
            donor = max(quotas, key=lambda other: (quotas[other], -other))
            quotas[donor] -= 1
            quotas[label] = 1
    return quotas


def _cut(stratum: list[int], quota: int, samples: Sequence[Sample]) -> tuple[list[int], list[int]]:
    """The first `quota`, and further ones as long as their content equals the last one's."""
    end = quota
    while 0 < end < len(stratum) and samples[stratum[end]].digest == samples[stratum[end - 1]].digest:
        end += 1
    return stratum[:end], stratum[end:]


def _check(samples: Sequence[Sample], decided: Sequence[SplitName], labels: Sequence[str]) -> None:
    counts = Counter((split, sample.label) for split, sample in zip(decided, samples, strict=True))
    for split in SPLITS:
        present = {label for (name, label) in counts if name == split}
        if not present:
            raise DataError(f"the {split} split is empty")
        absent = [name for label, name in enumerate(labels) if label not in present]
        if split in ("train", "calibration") and absent:
            total = sum(count for (name, _), count in counts.items() if name == split)
            more = "; raise `calibration`" if split == "calibration" and total < len(labels) else ""
            raise DataError(
                f"the {split} split ({total} samples) has no sample of the class"
                f"{'es' if len(absent) > 1 else ''} {', '.join(absent)}{more}"
            )
