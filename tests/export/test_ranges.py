"""Range estimators against distributions whose answer is known, and against the float files of both formats."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest

from export import int8_onnx, int8_tflite
from export.ranges import BINS, Estimator, entropy_range, estimate, mse_range, percentile_range
from export.request import RangeEstimator
from tests.export.conftest import Converted, make_samples

METHODS: tuple[RangeEstimator, ...] = ("percentile", "mse", "entropy", "moving-average")


def histogram(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    low, high = float(values.min()), float(values.max())
    return np.histogram(values, BINS, (low, high))[0], low, high


def error(values: np.ndarray, low: float, high: float) -> float:
    scale = (high - low) / 255
    zero = round(-low / scale)
    return float(np.square(values - (np.clip(np.round(values / scale) + zero, 0, 255) - zero) * scale).mean())


@pytest.fixture(scope="module")
def bell() -> np.ndarray:
    """A normal distribution with one value far out, as activations often have."""
    return np.append(np.random.default_rng(0).normal(size=1_000_000), 12.0)


def test_a_percentile_leaves_out_that_share_and_no_more(bell: np.ndarray) -> None:
    low, high = percentile_range(*histogram(bell), 0.998)
    assert low == pytest.approx(-3.09, abs=0.15)
    assert high == pytest.approx(3.09, abs=0.15)
    assert percentile_range(*histogram(bell), 1.0) == pytest.approx((bell.min(), bell.max()))


@pytest.mark.parametrize("search", [mse_range, entropy_range])
def test_outliers_are_clipped_and_rounding_gets_finer(bell: np.ndarray, search) -> None:
    low, high = search(*histogram(bell))
    assert high < 8
    assert low < -2
    assert error(bell[:-1], low, high) < error(bell[:-1], bell.min(), bell.max())


def test_the_least_squared_error_is_no_larger_than_that_of_any_percentile(bell: np.ndarray) -> None:
    counts, low, high = histogram(bell)
    best = error(bell, *mse_range(counts, low, high))
    assert best <= 1.05 * min(error(bell, *percentile_range(counts, low, high, share)) for share in (0.99, 0.9999, 1.0))


def test_an_even_distribution_is_hardly_clipped() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 100_000)
    for search in (mse_range, entropy_range):
        low, high = search(*histogram(values))
        assert low == 0
        assert high > 0.95


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_always_inside(method: RangeEstimator) -> None:
    values = np.random.default_rng(0).normal(50, 1, 1000).astype(np.float32)
    extremes = {"x": (float(values.min()), float(values.max()))}
    low, high = estimate(Estimator(method), [{"x": values}], extremes)["x"]
    assert high > 45
    assert method == "moving-average" or low == 0  # there the quantizers add it


def test_a_moving_average_forgets_and_tensors_without_bounds_stay_as_they_are() -> None:
    samples = [{"x": np.asarray([-1.0, 10.0], np.float32)}, *[{"x": np.asarray([-1.0, 1.0], np.float32)}] * 200]
    extremes = {"x": (-1.0, 10.0), "padding": (float("-inf"), 0.0)}
    found = estimate(Estimator("moving-average"), samples, extremes)
    assert found["x"] == pytest.approx((-1.0, 1.0), abs=0.01)
    assert found["padding"] == extremes["padding"]


@pytest.mark.parametrize("method", METHODS)
def test_no_sample_is_kept_so_that_memory_does_not_grow_with_their_number(method: RangeEstimator) -> None:
    held: list[weakref.ref[np.ndarray]] = []
    most = []

    class Sample(np.ndarray):
        """An array that weak references can point to."""

    def samples():
        for _ in range(50):
            values = np.ones(10, np.float32).view(Sample)
            held.append(weakref.ref(values))
            most.append(sum(reference() is not None for reference in held))
            yield {"x": values}
            del values

    estimate(Estimator(method), samples(), {"x": (0.0, 1.0)})
    assert len(most) == 50
    assert max(most) <= 2


@pytest.mark.parametrize("method", METHODS)
def test_both_formats_give_every_tensor_a_range_within_the_extremes(
    onnx_files: Converted, tflite_files: Converted, method: RangeEstimator
) -> None:
    import onnx

    samples = make_samples(8)
    estimator = Estimator(method, 0.99)
    model = onnx.load(onnx_files.file("fp32").path)
    inputs = [sample[None] for sample in samples]
    measured = int8_onnx.measure_ranges(model, inputs)
    narrowed = int8_onnx._estimated(model, inputs, 1, estimator, measured)
    content = Path(tflite_files.file("fp32").path).read_bytes()
    named = [{"input": np.ascontiguousarray(sample[None].transpose(0, 2, 3, 1))} for sample in samples]
    wide = int8_tflite.measure_ranges(content, named)
    narrow = int8_tflite.measure_ranges(content, named, estimator=estimator)
    pairs = [(narrowed[name], measured[name]) for name in measured]
    pairs += [((narrow[n]["min"][0], narrow[n]["max"][0]), (wide[n]["min"][0], wide[n]["max"][0])) for n in wide]
    for (low, high), (least, most) in pairs:
        assert min(least, 0) - 1e-5 <= low <= high <= max(most, 0) + 1e-5
    inner = sum(high - low < 0.999 * (most - least) for (low, high), (least, most) in pairs)
    assert inner >= len(pairs) // 4
