"""Dominance, fronts, hypervolume, and when a trial is not trained or cut. Lower costs and higher quality are better."""

from __future__ import annotations

import random

from tune.multi_objective import (
    Course,
    dominates,
    front,
    hypervolume,
    reason_not_to_train,
    reason_to_cut,
    recoverable_lag,
)


def ended(number: int, cost: float, curve: list[float], point: float = 0.0) -> Course:
    return Course(number, (cost,), dict(enumerate(curve, start=1)), curve[-1], (point,))


def running(number: int, cost: float, curve: list[float], point: float = 0.0) -> Course:
    return Course(number, (cost,), dict(enumerate(curve, start=1)), None, (point,))


def test_a_point_dominates_when_it_is_nowhere_worse_and_somewhere_better() -> None:
    assert dominates((1, 2), (1, 3))
    assert not dominates((1, 2), (1, 2))
    assert not dominates((1, 3), (2, 2))


def test_the_front_is_what_comparing_all_pairs_gives() -> None:
    generator = random.Random(0)
    for places in (2, 3):
        points = [tuple(generator.randint(0, 6) for _ in range(places)) for _ in range(60)]
        kept = front(points)
        undominated = {p for p in points if not any(dominates(other, p) for other in points)}
        assert {points[index] for index in kept} == undominated
        assert len(kept) == len(undominated)


def test_an_empty_study_has_an_empty_front() -> None:
    assert front([]) == []


def test_the_hypervolume_is_the_area_that_the_front_covers() -> None:
    assert hypervolume([(1, 3), (2, 2), (3, 3)], (4, 4)) == (4 - 1) * (4 - 3) + (4 - 2) * (3 - 2)
    assert hypervolume([(5, 1)], (4, 4)) == 0


CHEAP_AND_GOOD = [ended(n, 1.0, [0.5, 0.7, 0.8 + n / 1000]) for n in range(5)]


def test_a_trial_that_lags_behind_a_cheaper_one_is_cut() -> None:
    assert reason_to_cut(running(9, 2.0, [0.2, 0.3]), 2, CHEAP_AND_GOOD, 5, 1) is not None


def test_a_cheaper_trial_is_not_cut_however_weak_it_is() -> None:
    assert reason_to_cut(running(9, 0.5, [0.1, 0.1]), 2, CHEAP_AND_GOOD, 5, 1) is None


def test_nothing_is_cut_in_the_first_steps_nor_before_enough_trials_have_ended() -> None:
    weak = running(9, 2.0, [0.1, 0.1])
    assert reason_to_cut(weak, 1, CHEAP_AND_GOOD, 5, 1) is None
    assert reason_to_cut(weak, 2, CHEAP_AND_GOOD[:4], 5, 1) is None


def test_a_lag_from_which_trials_have_come_back_is_forgiven() -> None:
    late = [*CHEAP_AND_GOOD, *(ended(10 + n, 1.0, [0.1, 0.2, 0.9 + n / 1000]) for n in range(5))]
    assert recoverable_lag(late, 2) > 0.4
    assert reason_to_cut(running(99, 2.0, [0.2, 0.3]), 2, late, 5, 1) is None


def test_a_curve_of_nan_is_behind_every_other() -> None:
    assert reason_to_cut(running(9, 2.0, [float("nan"), float("nan")]), 2, CHEAP_AND_GOOD, 5, 1) is not None


def test_one_nan_does_not_hide_the_other_steps() -> None:
    assert running(1, 1.0, [0.5, float("nan")]).best_until(2) == 0.5


FLAT = [ended(n, 1.0, [0.6, 0.8 + n / 10000], point=n / 20) for n in range(10)]


def test_an_architecture_whose_neighbours_stay_below_a_cheaper_one_is_not_trained() -> None:
    others = [*FLAT, ended(50, 1.0, [0.6, 0.95], point=0.9)]
    hopeless = Course(51, (2.0,), {}, None, (0.1,))
    assert "costs no more and reached 0.95" in (reason_not_to_train(hopeless, others) or "")
    cheaper = Course(51, (0.5,), {}, None, (0.1,))
    assert reason_not_to_train(cheaper, others) is None


def test_several_trials_of_one_point_do_not_pass_for_neighbours_that_agree() -> None:
    one = [ended(n, 1.0, [0.6, 0.8], point=0.5) for n in range(10)]
    others = [*one, *(ended(20 + n, 0.5, [0.6, 0.7], point=n / 10) for n in range(4))]
    assert reason_not_to_train(Course(51, (2.0,), {}, None, (0.55,)), others) is None
    assert reason_not_to_train(Course(51, (2.0,), {}, None, (0.5,)), others) is not None


def test_every_fifth_hopeless_trial_is_trained_anyway_and_so_are_the_first_ten() -> None:
    others = [*FLAT, ended(50, 1.0, [0.6, 0.95], point=0.9)]
    assert reason_not_to_train(Course(55, (2.0,), {}, None, (0.1,)), others) is None
    assert reason_not_to_train(Course(51, (2.0,), {}, None, (0.1,)), others[-8:]) is None
