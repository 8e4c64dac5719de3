from __future__ import annotations

import pytest

from compress.errors import RecipeError
from compress.report.claims import load_claims


def test_the_shipped_table_holds_the_published_figures() -> None:
    claimed = {claim.id: claim.claimed for claim in load_claims("compression-table")}
    assert claimed["int8-quantization.size"] == -0.75
    assert claimed["int8-quantization.latency"] == -0.45
    assert claimed["int8-quantization.quality"] == -0.008
    assert claimed["pruning-50.parameters"] == -0.5
    assert claimed["pruning-50.latency"] == -0.3
    assert claimed["pruning-50.quality"] == -0.015
    assert claimed["prune-distill.size"] == -0.68
    assert claimed["prune-distill.latency"] == -0.565
    assert claimed["prune-distill.quality"] == -0.012
    assert claimed["mixed-precision.memory"] == (-0.5, -0.4)
    assert claimed["tuning.early-stopping-time"] == -0.4
    assert claimed["edge.network-latency"] == -0.6


def test_times_faster_and_percent_of_latency_agree() -> None:
    """The source says 2.3 times faster, and 56.5 % less latency."""
    (claim,) = [claim for claim in load_claims("compression-table") if claim.id == "prune-distill.latency"]
    assert claim.range is not None
    assert claim.range[0] == pytest.approx(1 / 2.3 - 1, abs=5e-4)


def test_ids_are_unique_and_a_claim_that_can_be_answered_has_a_figure_and_a_side() -> None:
    claims = load_claims("compression-table")
    assert len({claim.id for claim in claims}) == len(claims)
    for claim in claims:
        if claim.answer is not None:
            assert claim.range is not None
            assert claim.better is not None


def test_an_unknown_reference_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RecipeError, match="compression-table"):
        load_claims("compression-tabel")
