from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.decode import Score, classify, softmax
from edge_runtime.errors import ContractError

LABELS = ("cat", "dog", "owl")


def test_probabilities_sum_to_one_even_for_huge_logits() -> None:
    probabilities = softmax(np.array([[1e4, 1e4 - 1, -1e4], [0.0, 0.0, 0.0]], dtype=np.float32))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(probabilities[0], [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0])


def test_labels_come_best_first_and_the_first_of_equals_wins() -> None:
    assert [score.label for score in classify(np.array([[0.1, 3.0, 3.0]]), LABELS, top=2)] == ["dog", "owl"]
    assert classify(np.zeros(3), LABELS, top=1) == (Score("cat", pytest.approx(1 / 3)),)


def test_more_labels_than_there_are_gives_all() -> None:
    assert len(classify(np.zeros(3), LABELS, top=10)) == 3


def test_another_number_of_logits_is_refused() -> None:
    with pytest.raises(ContractError, match="gave 4 logits, the contract has 3 labels"):
        classify(np.zeros((1, 4)), LABELS)


def test_logits_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ContractError, match="NaN or infinite"):
        classify(np.array([0, np.nan, 1]), LABELS)
