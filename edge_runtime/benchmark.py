"""Latency, measured so that two models can be compared: interleaved on one machine at one time, with an interval.

A round gives every model its turn, in an order drawn anew each round. A turn is one untimed run, which brings the
model's weights back into the caches that the others emptied, then the timed runs. What disturbs a round disturbs all
models in it, so intervals of ratios come from resampling rounds, not single runs.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.protocol import Array, Engine
from edge_runtime.errors import UsageError
from edge_runtime.metrics import Interval
from edge_runtime.nearest import suggestion

Samples = NDArray[np.float64]

_RESAMPLES = 1000
_TAIL_SAMPLES = 5
"""A percentile is only given when at least this many samples lie beyond it."""
_LEAST_ROUNDS = 3


@dataclass(frozen=True)
class LatencyResult:
    """Milliseconds of one model, and its ratio to the baseline (below 1: faster).

    `samples_ms` is (rounds, repeats). `p99` is None when the runs are too few to tell (500 are needed).
    `ratio` is the ratio of medians, `ratio_interval` its 95 % bootstrap interval; both are 1 for the baseline.
    `load_before` and `load_after` are the machine's load average over one minute, None where the system has none.
    `converged` is False when a cap ended the measurement before the interval was as narrow as asked for.
    """

    name: str
    samples_ms: Samples
    median: float
    p90: float
    p95: float
    p99: float | None
    runs: int
    baseline: str
    ratio: float
    ratio_interval: Interval
    load_before: float | None
    load_after: float | None
    converged: bool

    @property
    def verdict(self) -> str:
        """`faster`, `slower` or `no difference` (the interval contains 1) against the baseline."""
        low, high = self.ratio_interval
        if low <= 1 <= high:
            return "no difference"
        return "faster" if high < 1 else "slower"


def interleave(
    runs: Mapping[str, Callable[[], object]],
    baseline: str,
    *,
    warmup: int = 5,
    repeats: int = 2,
    min_rounds: int = 25,
    max_rounds: int = 500,
    max_seconds: float = 60.0,
    width: float = 0.02,
    seed: int = 0,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, LatencyResult]:
    """Times every callable of `runs` against `runs[baseline]`, interleaved.

    Ends when the 95 % interval of every ratio is at most `width` wide (0.02: two points of percent), after at least
    `min_rounds`; or at `max_rounds`; or after `max_seconds` (but never before 3 rounds).

    Args:
        warmup: untimed runs of each before anything is timed.
        repeats: timed runs in a turn.
        seed: fixes the order within rounds and the bootstrap.
        clock: nanoseconds; wall time by default, `time.process_time_ns` for CPU time.

    Raises UsageError when `runs` is empty or `baseline` is not in it.
    """
    if baseline not in runs:
        raise UsageError(f"baseline '{baseline}' is not among the models measured{suggestion(baseline, runs)}")
    rng = np.random.default_rng(seed)
    names = list(runs)
    samples: dict[str, list[list[int]]] = {name: [] for name in names}
    load_before = _load()
    for name in names:
        for _ in range(warmup):
            runs[name]()
    deadline = time.monotonic() + max_seconds
    rounds, next_check, converged = 0, min_rounds, False
    while rounds < max_rounds and not converged:
        with _without_collector():
            for index in rng.permutation(len(names)):
                samples[names[index]].append(_turn(runs[names[index]], repeats, clock))
        rounds += 1
        if rounds >= _LEAST_ROUNDS and time.monotonic() > deadline:
            break
        if rounds >= next_check:
            converged = _narrow(samples, baseline, width, seed)
            next_check = rounds + max(5, rounds // 4)
    milliseconds = {name: np.array(turns, dtype=np.float64) / 1e6 for name, turns in samples.items()}
    return _results(milliseconds, baseline, seed, load_before, converged)


def ratio(samples_ms: Samples, against_ms: Samples, seed: int = 0) -> tuple[float, Interval]:
    """Ratio of medians of two models from one `interleave`, each (rounds, repeats), with its 95 % interval.

    The bootstrap draws whole rounds, the same for both. Raises ValueError when the shapes differ.
    """
    if samples_ms.shape != against_ms.shape:
        raise ValueError(f"samples are not from one run: {samples_ms.shape} and {against_ms.shape}")
    rounds = samples_ms.shape[0]
    drawn = np.random.default_rng(seed).integers(0, rounds, size=(_RESAMPLES, rounds))
    ratios = _medians(samples_ms, drawn) / _medians(against_ms, drawn)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(np.median(samples_ms) / np.median(against_ms)), (float(low), float(high))


def sample_inputs(engine: Engine, seed: int = 0) -> list[Array]:
    """Arrays that a model takes, for timing: floats in 0..1, int8 and uint8 over their range, ones for indices."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for tensor in engine.inputs:
        shape = tuple(1 if size == -1 else size for size in tensor.shape)
        dtype = np.dtype(tensor.dtype)
        if dtype.kind == "f":
            arrays.append(rng.random(shape, dtype=np.float32).astype(dtype))
        elif dtype.itemsize == 1 and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max, size=shape, endpoint=True, dtype=dtype))
        else:
            arrays.append(np.ones(shape, dtype=dtype))
    return arrays


def _turn(run: Callable[[], object], repeats: int, clock: Callable[[], int]) -> list[int]:
    run()
    durations = []
    for _ in range(repeats):
        start = clock()
        run()
        durations.append(clock() - start)
    return durations


def _narrow(samples: Mapping[str, list[list[int]]], baseline: str, width: float, seed: int) -> bool:
    arrays = {name: np.array(turns, dtype=np.float64) for name, turns in samples.items()}
    for name, array in arrays.items():
        if name != baseline:
            _, (low, high) = ratio(array, arrays[baseline], seed)
            if high - low > width:
                return False
    return True


def _results(
    samples: Mapping[str, Samples], baseline: str, seed: int, load_before: float | None, converged: bool
) -> dict[str, LatencyResult]:
    load_after = _load()
    results = {}
    for name, array in samples.items():
        value, interval = (1.0, (1.0, 1.0)) if name == baseline else ratio(array, samples[baseline], seed)
        median, p90, p95, p99 = (float(np.quantile(array, share)) for share in (0.5, 0.9, 0.95, 0.99))
        results[name] = LatencyResult(
            name=name,
            samples_ms=array,
            median=median,
            p90=p90,
            p95=p95,
            p99=p99 if array.size * 0.01 >= _TAIL_SAMPLES else None,
            runs=array.size,
            baseline=baseline,
            ratio=value,
            ratio_interval=interval,
            load_before=load_before,
            load_after=load_after,
            converged=converged,
        )
    return results


def _medians(samples_ms: Samples, drawn: NDArray[np.int64]) -> Samples:
    medians: Samples = np.median(samples_ms[drawn].reshape(len(drawn), -1), axis=1)
    return medians


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keeps Python's garbage collector out of the timed runs."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
