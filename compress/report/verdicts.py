"""Setting a run's measurements beside published claims.

Against the claim stands the paired 95 % interval of what was measured: **beats** when the whole interval is better,
**reproduces** when it contains the claim, **falls short** when the whole interval is worse, and **not measured**
otherwise. Sizes and counts are exact: their interval is one point. A verdict never changes the exit code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compress.models.variant import FileVariant, TorchVariant, Variant
from compress.recipe.schema import Recipe
from compress.report import text
from compress.report.claims import Answer, Claim, Quantity, Technique
from compress.report.comparison import compare
from compress.report.model import Comparison, Interval, Outcome, Verdict
from compress.report.proof import MeasuredProof, float_file


def judge(claimed: Interval, better: Literal["lower", "higher"], measured: Interval) -> Outcome:
    """The verdict on a claim (low and high, equal for a single figure) from the measured 95 % interval."""
    if better == "higher":
        claimed, measured = (-claimed[1], -claimed[0]), (-measured[1], -measured[0])
    if measured[1] < claimed[0]:
        return "beats"
    if measured[0] > claimed[1]:
        return "falls short"
    return "reproduces"


@dataclass(frozen=True)
class Techniques:
    """What was done to each torch variant, from the start of its line to itself: (variant, `use` of its stage)."""

    lines: Mapping[str, tuple[tuple[str, str], ...]]

    @classmethod
    def of(cls, recipe: Recipe, variants: Mapping[str, Variant]) -> Techniques:
        """Follows the torch variants back through the recipe's nodes."""
        made = {result: (node.stage.use, node.parents) for node in recipe.nodes for result in node.results}
        lines: dict[str, tuple[tuple[str, str], ...]] = {}
        for node in recipe.nodes:
            for name in node.results:
                use, parents = made[name]
                before = lines.get(parents[0], ()) if parents else ()
                lines[name] = (*before, (name, use))
        return cls({name: line for name, line in lines.items() if _is_torch(variants.get(name), line)})

    def uses(self, torch: str) -> frozenset[str]:
        """The techniques in the line of a torch variant, e.g. {"train", "prune", "distill"}."""
        return frozenset(use for _, use in self.lines.get(torch, ()))

    def start(self, torch: str) -> str | None:
        """The torch variant that a pruned or distilled one came from: the last before the first cut or distillation."""
        before = None
        for name, use in self.lines.get(torch, ()):
            if use in ("prune", "distill"):
                return before
            before = name
        return None


def _is_torch(variant: Variant | None, line: tuple[tuple[str, str], ...]) -> bool:
    if variant is None:
        return line[-1][1] not in ("export", "benchmark")
    return isinstance(variant, TorchVariant) and not isinstance(variant, FileVariant)


def verdicts(
    claims: Sequence[Claim], recipe: Recipe, techniques: Techniques, proofs: Sequence[MeasuredProof]
) -> tuple[Verdict, ...]:
    """One verdict for each claim and each file that answers it; one `not measured` for a claim that none answers."""
    results: list[Verdict] = []
    for claim in claims:
        answered = [] if claim.answer is None else list(_answers(claim, claim.answer, recipe, techniques, proofs))
        results.extend(answered or [_not_measured(claim)])
    return tuple(results)


@dataclass(frozen=True)
class _Pair:
    """A file that shows a technique, and the file without it: same engine, same threads, one interleaved run."""

    proof: MeasuredProof
    key: str
    against: str


def _pairs(technique: Technique, techniques: Techniques, proof: MeasuredProof) -> Iterator[_Pair]:
    variants = proof.measurements.variants
    for key, measurement in variants.items():
        uses = techniques.uses(measurement.torch)
        if technique == "int8":
            # The claim is about quantization alone: cut and distilled networks are not asked where others are there.
            fits = measurement.precision == "int8" and not uses & {"prune", "distill"}
            other: str | None = measurement.torch
        else:
            wanted = {"prune"} if technique == "prune" else {"prune", "distill"}
            fits = measurement.precision == "fp32" and uses & {"prune", "distill"} == wanted
            other = techniques.start(measurement.torch)
        if fits and other is not None:
            against = float_file(proof, other, measurement.format, measurement.engine)
            if against is not None:
                yield _Pair(proof, key, against)


def _answers(
    claim: Claim, answer: Answer, recipe: Recipe, techniques: Techniques, proofs: Sequence[MeasuredProof]
) -> Iterator[Verdict]:
    for proof in proofs:
        for pair in _pairs(answer.technique, techniques, proof):
            comparison = compare(proof, pair.key, pair.against)
            reading = _reading(comparison, answer.quantity)
            missed = [name for name, limit in answer.reached.items() if _change(comparison, name) > limit]
            # A size is the file's own: the same file on a second engine is no second answer.
            again = answer.quantity not in ("latency", "quality") and not proof[pair.key].default_engine
            if reading is not None and not missed and not again:
                yield _verdict(claim, answer, recipe, pair, comparison, *reading)


def _verdict(
    claim: Claim,
    answer: Answer,
    recipe: Recipe,
    pair: _Pair,
    comparison: Comparison,
    measured: float,
    interval: Interval,
) -> Verdict:
    claimed, better = claim.range, claim.better
    if claimed is None or better is None:
        raise ValueError(f"the claim {claim.id} has an answer but no figure, or does not say which side is better")
    other = pair.proof[pair.against]
    notes = [f"at {text.signed(_change(comparison, name))} {name}" for name in answer.reached]
    metric = pair.proof.measurements.metric if answer.quantity == "quality" else None
    if metric is not None and claim.metric is not None and metric != claim.metric:
        notes.append(f"the claim is in {claim.metric}, measured in {metric}")
    return Verdict(
        claim=claim.id,
        statement=claim.statement,
        claimed=claim.claimed,
        measured=measured,
        interval=interval,
        of=pair.key,
        against=f"{pair.against} ({other.engine} {other.precision})",
        command=recipe.command,
        metric=metric,
        extension=recipe.task != claim.task,
        verdict=judge(claimed, better, interval),
        note="; ".join(notes) or None,
    )


def _not_measured(claim: Claim) -> Verdict:
    note = f"to be measured as: {claim.measured_as}"
    if claim.answer is not None and claim.answer.reached:
        wanted = ", ".join(f"{text.signed(limit, 0)} {name}" for name, limit in claim.answer.reached.items())
        note += f"; needs a file that reached {wanted}"
    return Verdict(claim=claim.id, statement=claim.statement, claimed=claim.claimed, verdict="not measured", note=note)


def _reading(comparison: Comparison, quantity: Quantity) -> tuple[float, Interval] | None:
    if quantity == "quality":
        return comparison.quality, comparison.quality_interval
    if quantity == "latency":
        if comparison.latency is None or comparison.latency_interval is None:
            return None
        return comparison.latency, comparison.latency_interval
    value = _change(comparison, quantity)
    return value, (value, value)


def _change(comparison: Comparison, quantity: Quantity) -> float:
    value = getattr(comparison, quantity)
    return float("inf") if value is None else value
