"""`run MODEL INPUT...`: the most probable labels of images or arrays."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.commands.options import add_engine, add_output, add_threads, positive, print_json
from edge_runtime.errors import ContractError

if TYPE_CHECKING:
    from edge_runtime.decode import Score
    from edge_runtime.session import Session


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file, its contract beside it")
    parser.add_argument("inputs", nargs="+", metavar="input", help="image file, or .npy (uint8 image or float32 input)")
    parser.add_argument("--top", type=positive, default=5, metavar="N", help="labels to print (default: 5)")
    add_engine(parser)
    add_threads(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> None:
    from edge_runtime.session import open_session

    session = open_session(arguments.model, arguments.engine, arguments.threads)
    _check(session)
    results = [(path, _answer(session, path, arguments.top)) for path in arguments.inputs]
    if arguments.json:
        print_json(_document(arguments.model, session, results))
        return
    for path, scores in results:
        print(path)
        for score in scores:
            print(f"  {score.probability:6.1%}  {score.label}")


def _check(session: Session) -> None:
    """`run` answers classifiers with one input; anything else is refused before an input is read."""
    contract = session.contract
    if len(contract.inputs) != 1 or contract.outputs[0].decoder != "logits":
        raise ContractError(
            f"`run` takes classifiers with one input; this model has {len(contract.inputs)} inputs "
            f"and the decoder '{contract.outputs[0].decoder}'"
        )


def _answer(session: Session, path: str, top: int) -> tuple[Score, ...]:
    from edge_runtime.decode import classify
    from edge_runtime.images import read_array, read_image

    try:
        if Path(path).suffix.lower() == ".npy":
            array = read_array(path)
            is_image = array.dtype == "uint8" and array.ndim in (2, 3)
            values = session.prepare(array[..., None] if array.ndim == 2 else array) if is_image else array
        else:
            values = session.prepare(read_image(path))
        return classify(session.predict([values])[0], session.contract.labels, top)
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from error


def _document(model: str, session: Session, results: list[tuple[str, tuple[Score, ...]]]) -> dict[str, Any]:
    engine = session.engine
    return {
        "model": model,
        "engine": engine.name,
        "engine_version": engine.version,
        "delegate": engine.delegate,
        "threads": engine.threads,
        "results": [
            {"input": path, "labels": [{"label": s.label, "probability": s.probability} for s in scores]}
            for path, scores in results
        ],
    }
