from __future__ import annotations

import time

import numpy as np
import pytest

from edge_runtime.metrics import (
    accuracy,
    bootstrap_interval,
    confusion_matrix,
    paired_bootstrap_interval,
    per_class_accuracy,
    top_k_accuracy,
)

LABELS = np.array([0, 0, 1, 1, 1, 3])
PREDICTED = np.array([0, 1, 1, 1, 0, 3])


def test_accuracy_is_the_share_of_equal_answers() -> None:
    assert accuracy(PREDICTED, LABELS) == pytest.approx(4 / 6)


def test_per_class_accuracy_is_nan_for_a_class_without_samples() -> None:
    np.testing.assert_allclose(per_class_accuracy(PREDICTED, LABELS, 5), [1 / 2, 2 / 3, np.nan, 1, np.nan])


def test_the_confusion_matrix_has_labels_down_and_predictions_across() -> None:
    matrix = confusion_matrix(PREDICTED, LABELS, 4)
    assert matrix.tolist() == [[1, 1, 0, 0], [1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert confusion_matrix(np.array([-1, 0]), np.array([0, 0]), 2).tolist() == [[1, 0], [0, 0]]


def test_top_k_counts_a_label_among_the_k_largest() -> None:
    logits = np.array([[3.0, 2, 1], [3, 2, 1], [1, 1, 1]])
    labels = np.array([1, 2, 0])
    assert [top_k_accuracy(logits, labels, k) for k in (1, 2, 3)] == pytest.approx([1 / 3, 2 / 3, 1])
    with pytest.raises(ValueError, match="k must be between 1 and the 3 classes"):
        top_k_accuracy(logits, labels, 4)


@pytest.mark.parametrize("metric", [accuracy, lambda p, y: per_class_accuracy(p, y, 2)])
def test_different_lengths_and_no_samples_are_refused(metric: object) -> None:
    for predicted, labels in ((np.array([1]), np.array([1, 0])), (np.array([], int), np.array([], int))):
        with pytest.raises(ValueError, match="as many predictions as labels"):
            metric(predicted, labels)  # type: ignore[operator]


def test_an_interval_repeats_exactly_and_depends_on_the_seed() -> None:
    values = np.random.default_rng(0).random(500)
    assert bootstrap_interval(values, 1) == bootstrap_interval(values, 1)
    assert bootstrap_interval(values, 1) != bootstrap_interval(values, 2)


def test_the_interval_of_a_mean_has_the_width_of_the_normal_approximation() -> None:
    values = np.random.default_rng(0).normal(3, 2, 2000)
    low, high = bootstrap_interval(values, 0)
    error = values.std() / np.sqrt(values.size)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)


def test_correctness_takes_the_fast_way_and_gives_the_same_interval() -> None:
    correct = np.random.default_rng(0).random(1000) < 0.9
    fast = bootstrap_interval(correct, 0)
    slow = bootstrap_interval(correct + np.linspace(0, 1e-9, 1000), 0)  # 1000 distinct values: drawn one by one
    assert fast == pytest.approx(slow, abs=2e-3)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for seed in range(200):
        low, high = bootstrap_interval(rng.random(300) < 0.8, seed)
        held += low <= 0.8 <= high
    assert 180 <= held <= 198  # 95 % of 200 is 190


def test_the_median_has_an_interval_too() -> None:
    values = np.random.default_rng(0).normal(3, 2, 1000)
    low, high = bootstrap_interval(values, 0, statistic="median")
    assert low < np.median(values) < high
    assert high - low == pytest.approx(2 * 1.96 * 1.2533 * 2 / np.sqrt(1000), rel=0.25)
    assert bootstrap_interval(np.ones(80), 0, statistic="median") == (1.0, 1.0)


def test_pairing_takes_out_what_two_models_share() -> None:
    rng = np.random.default_rng(0)
    baseline = rng.random(1000) < 0.7
    better = baseline.copy()
    better[np.flatnonzero(~baseline)[:12]] = True
    low, high = paired_bootstrap_interval(better, baseline, 0)
    assert 0 < low < 0.012 < high < 0.03
    alone = bootstrap_interval(better, 0)
    assert high - low < (alone[1] - alone[0]) / 3


def test_two_models_that_agree_differ_by_nothing() -> None:
    correct = np.array([True, False, True])
    assert paired_bootstrap_interval(correct, correct, 0) == (0.0, 0.0)


def test_paired_values_have_to_be_of_equal_length() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        paired_bootstrap_interval(np.zeros(3), np.zeros(4), 0)


@pytest.mark.parametrize("values", [np.array([]), np.array([1.0, np.nan]), np.zeros((2, 2))])
def test_values_without_an_interval_are_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least one value and no NaN"):
        bootstrap_interval(values, 0)


def test_a_million_answers_take_no_more_than_a_moment() -> None:
    correct = np.random.default_rng(0).random(1_000_000) < 0.9
    start = time.process_time()
    bootstrap_interval(correct, 0)
    assert time.process_time() - start < 1.0
