"""`memory MODEL`: peak memory of this process when it loads and runs a file. `benchmark --memory` starts it afresh."""

from __future__ import annotations

import argparse
import importlib

from edge_runtime.commands.options import add_engine, add_output, add_threads, print_json


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file")
    add_engine(parser)
    add_threads(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> None:
    from edge_runtime.benchmark import sample_inputs
    from edge_runtime.engines import default_engine, engine_spec, engine_version, open_engine
    from edge_runtime.memory import process_peak

    name = arguments.engine or default_engine(arguments.model)
    engine_version(name)
    importlib.import_module(engine_spec(name).module)
    before = process_peak()
    engine = open_engine(arguments.model, name, arguments.threads)
    inputs = sample_inputs(engine)
    for _ in range(3):
        engine.run(inputs)
    peak = process_peak()
    if arguments.json:
        print_json({"peak_memory_bytes": peak, "before_model_bytes": before, "engine": name})
    else:
        print(f"{peak / 1e6:.1f} MB at the peak, {before / 1e6:.1f} MB before the model was loaded ({name})")
