"""`benchmark MODEL...`: latency of model files, interleaved, against the first one."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.commands.options import (
    add_output,
    add_threads,
    positive_seconds,
    print_json,
    print_table,
)
from edge_runtime.errors import UsageError

if TYPE_CHECKING:
    from edge_runtime.benchmark import LatencyResult
    from edge_runtime.engines.protocol import Engine


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="model", help="model files; the first is the baseline")
    parser.add_argument(
        "--engine",
        action="append",
        dest="engines",
        metavar="NAME",
        help="litert, onnxruntime or openvino; repeat to compare engines (default: by file type)",
    )
    parser.add_argument("--baseline", metavar="NAME", help="row that ratios are against (default: the first)")
    parser.add_argument("--seconds", type=positive_seconds, default=60.0, help="cap on the measurement (default: 60)")
    parser.add_argument("--width", type=positive_seconds, default=0.02, help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help="also the peak memory, in a fresh process per row")
    add_threads(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> None:
    from edge_runtime.benchmark import interleave, sample_inputs

    engines = _open(arguments.models, arguments.engines or [None], arguments.threads)
    results = interleave(
        {name: partial(engine.run, sample_inputs(engine)) for name, (_, engine) in engines.items()},
        arguments.baseline or next(iter(engines)),
        max_seconds=arguments.seconds,
        width=arguments.width,
    )
    memory = _memory(engines, arguments.threads) if arguments.memory else {}
    rows = {name: _row(path, engines[name][1], results[name], memory) for name, (path, _) in engines.items()}
    if arguments.json:
        first = next(iter(results.values()))
        print_json(
            {
                "baseline": first.baseline,
                "converged": first.converged,
                "load_average": {"before": first.load_before, "after": first.load_after},
                "models": rows,
            }
        )
    else:
        _print(rows, results)


def _open(paths: list[str], names: list[str | None], threads: int) -> dict[str, tuple[str, Engine]]:
    """Every file on every engine asked for that runs its type, by the name of its row."""
    from edge_runtime.engines import engine_spec, open_engine

    opened: dict[str, tuple[str, Engine]] = {}
    for path in paths:
        suffix = Path(path).suffix.lower()
        fitting = [name for name in names if name is None or suffix in engine_spec(name).suffixes]
        if not fitting:
            raise UsageError(f"none of the engines {', '.join(map(str, names))} runs {path}")
        for name in fitting:
            row = path if len(names) == 1 else f"{path} ({name})"
            if row in opened:
                raise UsageError(f"{row} is given twice")
            opened[row] = (path, open_engine(path, name, threads))
    return opened


def _memory(engines: dict[str, tuple[str, Engine]], threads: int) -> dict[str, int]:
    from edge_runtime.memory import peak_memory

    return {engine.name + path: peak_memory(path, engine.name, threads) for path, engine in engines.values()}


def _row(path: str, engine: Engine, result: LatencyResult, memory: dict[str, int]) -> dict[str, Any]:
    return {
        "path": path,
        "bytes": Path(path).stat().st_size,
        "engine": engine.name,
        "engine_version": engine.version,
        "delegate": engine.delegate,
        "threads": engine.threads,
        "latency_ms": {
            "median": result.median,
            "p90": result.p90,
            "p95": result.p95,
            "p99": result.p99,
            "runs": result.runs,
        },
        "ratio": result.ratio,
        "ratio_interval": list(result.ratio_interval),
        "verdict": result.verdict,
        "peak_memory_bytes": memory.get(engine.name + path),
    }


def _print(rows: dict[str, dict[str, Any]], results: dict[str, LatencyResult]) -> None:
    header = ["model", "engine", "delegate", "median ms", "p90", "p99", "runs", "ratio", "95 % interval", "verdict"]
    with_memory = any(row["peak_memory_bytes"] for row in rows.values())
    table = []
    for name, row in rows.items():
        latency, (low, high) = row["latency_ms"], row["ratio_interval"]
        is_baseline = name == results[name].baseline
        cells = [name, row["engine"], row["delegate"], f"{latency['median']:.3f}", f"{latency['p90']:.3f}"]
        cells += ["-" if latency["p99"] is None else f"{latency['p99']:.3f}", str(latency["runs"])]
        cells += [f"{row['ratio']:.3f}", "-" if is_baseline else f"{low:.3f} to {high:.3f}"]
        cells += ["baseline" if is_baseline else row["verdict"]]
        table.append(cells + ([f"{row['peak_memory_bytes'] / 1e6:.1f}"] if with_memory else []))
    print_table([*header, "peak MB"] if with_memory else header, table)
    first = next(iter(results.values()))
    if not first.converged and len(results) > 1:
        print("note: the cap was reached before the intervals were narrow; --seconds gives it longer")
    if first.load_before is not None:
        print(f"load average {first.load_before:.2f} before, {first.load_after:.2f} after")
