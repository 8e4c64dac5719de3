"""Patience, restoring, and scores that are no numbers."""

from __future__ import annotations

import pytest

from tune.early_stopping import EarlyStopping


def test_it_stops_after_patience_scores_without_improvement_and_keeps_the_best() -> None:
    weights = iter("abcdef")
    stopping = EarlyStopping[str](patience=2, keep=lambda: next(weights))
    assert [stopping(score) for score in (0.1, 0.3, 0.2, 0.3)] == [False, False, False, True]
    assert (stopping.best, stopping.best_score, stopping.best_step) == ("b", 0.3, 1)


def test_an_improvement_below_min_delta_is_kept_but_does_not_count() -> None:
    stopping = EarlyStopping[None](patience=2, min_delta=0.1)
    assert [stopping(score) for score in (0.5, 0.55, 0.59)] == [False, False, True]
    assert stopping.best_score == 0.59


def test_nan_is_never_an_improvement() -> None:
    stopping = EarlyStopping[None](patience=2)
    assert [stopping(score) for score in (float("nan"), 0.1, float("nan"), float("nan"))] == [False, False, False, True]
    assert stopping.best_step == 1


@pytest.mark.parametrize("options", [{"patience": 0}, {"patience": 1, "min_delta": -0.1}])
def test_wrong_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        EarlyStopping(**options)  # type: ignore[arg-type]
