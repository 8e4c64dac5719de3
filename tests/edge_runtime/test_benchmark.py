from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.benchmark import interleave, ratio, sample_inputs
from edge_runtime.engines import open_engine
from edge_runtime.errors import UsageError
from tests.edge_runtime.model_files import Quantized, write_tflite


class Clock:
    """Time that passes only when a model runs: every expectation is exact."""

    def __init__(self) -> None:
        self.now = 0
        self.calls: list[str] = []

    def __call__(self) -> int:
        return self.now

    def model(self, name: str, milliseconds: float, noise: Callable[[], float] = lambda: 0.0) -> Callable[[], None]:
        def run() -> None:
            self.calls.append(name)
            self.now += round((milliseconds + noise()) * 1e6)

        return run


def test_medians_and_ratios_are_those_of_the_models() -> None:
    clock = Clock()
    runs = {"fp32": clock.model("fp32", 10), "int8": clock.model("int8", 4), "copy": clock.model("copy", 10)}
    results = interleave(runs, "fp32", clock=clock)
    assert [results[name].median for name in runs] == [10, 4, 10]
    assert results["int8"].ratio == pytest.approx(0.4)
    assert results["int8"].ratio_interval == pytest.approx((0.4, 0.4))
    assert [results[name].verdict for name in runs] == ["no difference", "faster", "no difference"]
    assert all(result.converged and result.baseline == "fp32" for result in results.values())


def test_a_slower_model_is_called_slower() -> None:
    clock = Clock()
    results = interleave({"fp32": clock.model("a", 10), "int8": clock.model("b", 13)}, "fp32", clock=clock)
    assert results["int8"].verdict == "slower"


def test_a_difference_within_the_noise_is_no_difference() -> None:
    clock, rng = Clock(), np.random.default_rng(0)
    noise = lambda: rng.normal(0, 1)  # noqa: E731
    runs = {"a": clock.model("a", 10, noise), "b": clock.model("b", 10.02, noise)}
    result = interleave(runs, "a", clock=clock, max_rounds=60)["b"]
    low, high = result.ratio_interval
    assert low < 1 < high
    assert result.verdict == "no difference"


def test_the_interval_holds_the_true_ratio_and_narrows_with_rounds() -> None:
    widths = []
    for rounds in (30, 480):
        clock, rng = Clock(), np.random.default_rng(1)
        noise = lambda: rng.exponential(1)  # noqa: E731, B023
        runs = {"a": clock.model("a", 10, noise), "b": clock.model("b", 5, noise)}
        low, high = interleave(runs, "a", clock=clock, min_rounds=rounds, max_rounds=rounds)["b"].ratio_interval
        assert low < (5 + np.log(2)) / (10 + np.log(2)) < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 2.5  # the square root of 16 is 4


def test_load_that_hits_whole_rounds_leaves_the_ratio_alone() -> None:
    clock, rng = Clock(), np.random.default_rng(0)
    slow_down = iter(np.repeat(rng.uniform(1, 3, 10_000), 6))  # one factor for the six runs of a round

    def model(milliseconds: float) -> Callable[[], None]:
        def run() -> None:
            clock.now += round(milliseconds * 1e6 * next(slow_down))

        return run

    result = interleave({"a": model(10), "b": model(5)}, "a", clock=clock, warmup=0, max_rounds=200)["b"]
    assert result.ratio == pytest.approx(0.5, abs=0.01)
    assert result.ratio_interval[1] - result.ratio_interval[0] < 0.05


def test_turns_are_warmed_and_shuffled() -> None:
    clock = Clock()
    runs = {name: clock.model(name, 1) for name in "abc"}
    results = interleave(runs, "a", clock=clock, warmup=4, repeats=2, min_rounds=10, max_rounds=10)
    warmed, timed = clock.calls[:12], clock.calls[12:]
    assert warmed == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    rounds = [timed[start : start + 9] for start in range(0, 90, 9)]
    assert len(timed) == 90
    assert all(turns[i] == turns[i + 1] == turns[i + 2] for turns in rounds for i in (0, 3, 6))
    assert all(sorted(turns[::3]) == ["a", "b", "c"] for turns in rounds)
    assert len({tuple(turns) for turns in rounds}) > 1
    assert results["a"].samples_ms.shape == (10, 2)
    assert results["a"].runs == 20


def test_it_stops_as_soon_as_the_intervals_are_narrow() -> None:
    clock, rng = Clock(), np.random.default_rng(0)
    noise = lambda: rng.normal(0, 0.5)  # noqa: E731
    runs = {"a": clock.model("a", 10, noise), "b": clock.model("b", 5, noise)}
    result = interleave(runs, "a", clock=clock, width=0.02)["b"]
    low, high = result.ratio_interval
    assert result.converged
    assert high - low <= 0.02
    assert 25 <= len(result.samples_ms) < 500


def test_a_cap_ends_it_and_is_said() -> None:
    clock, rng = Clock(), np.random.default_rng(0)
    noise = lambda: rng.exponential(20)  # noqa: E731
    runs = {"a": clock.model("a", 10, noise), "b": clock.model("b", 5, noise)}
    by_rounds = interleave(runs, "a", clock=clock, max_rounds=30)["b"]
    assert (len(by_rounds.samples_ms), by_rounds.converged) == (30, False)
    by_time = interleave(runs, "a", clock=clock, max_seconds=1e-9)["b"]
    assert (len(by_time.samples_ms), by_time.converged) == (3, False)


def test_the_99th_percentile_is_only_given_when_the_runs_support_it() -> None:
    clock = Clock()
    few = interleave({"a": clock.model("a", 1)}, "a", clock=clock, min_rounds=249, max_rounds=249)["a"]
    many = interleave({"a": clock.model("a", 1)}, "a", clock=clock, min_rounds=250, max_rounds=250)["a"]
    assert (few.runs, few.p99) == (498, None)
    assert (many.runs, many.p99) == (500, 1)
    assert (few.p90, few.p95) == (1, 1)


def test_the_collector_rests_while_models_are_timed_and_works_again_after() -> None:
    seen = set()
    interleave({"a": lambda: seen.add(gc.isenabled())}, "a", warmup=0, min_rounds=3, max_rounds=3)
    assert seen == {False}
    assert gc.isenabled()


def test_an_unknown_baseline_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="baseline 'fp23' is not among the models measured; did you mean 'fp32'"):
        interleave({"fp32": lambda: None}, "fp23")


def test_any_two_models_of_a_run_can_be_compared() -> None:
    clock = Clock()
    runs = {"a": clock.model("a", 10), "b": clock.model("b", 5), "c": clock.model("c", 2)}
    results = interleave(runs, "a", clock=clock)
    value, (low, high) = ratio(results["c"].samples_ms, results["b"].samples_ms)
    assert (value, low, high) == pytest.approx((0.4, 0.4, 0.4))
    with pytest.raises(ValueError, match="not from one run"):
        ratio(results["c"].samples_ms, results["b"].samples_ms[:-1])


@pytest.mark.parametrize("quantized", [None, Quantized()], ids=["float", "int8"])
def test_sample_inputs_are_what_the_model_takes(tmp_path: Path, quantized: Quantized | None) -> None:
    engine = open_engine(write_tflite(tmp_path / "model.tflite", quantized))
    inputs = sample_inputs(engine)
    engine.run(inputs)
    assert len(np.unique(inputs[0])) > 20
    np.testing.assert_array_equal(inputs[0], sample_inputs(engine)[0])
