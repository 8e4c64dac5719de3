"""`inspect MODEL`: what a file takes and gives, what runs it, and whether its contract agrees."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.commands.options import add_engine, add_output, add_threads, print_json
from edge_runtime.errors import ContractError

if TYPE_CHECKING:
    from edge_runtime.engines.protocol import TensorInfo


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file")
    add_engine(parser)
    add_threads(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> None:
    from edge_runtime.contract import contract_path, load, to_json
    from edge_runtime.engines import open_engine
    from edge_runtime.session import Session

    path = Path(arguments.model)
    engine = open_engine(path, arguments.engine, arguments.threads)
    beside = contract_path(path)
    contract = load(beside) if beside.exists() else None
    document: dict[str, Any] = {
        "model": str(path),
        "bytes": path.stat().st_size,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "engine": engine.name,
        "engine_version": engine.version,
        "delegate": engine.delegate,
        "threads": engine.threads,
        "inputs": [_tensor(tensor) for tensor in engine.inputs],
        "outputs": [_tensor(tensor) for tensor in engine.outputs],
        "contract": None if contract is None else to_json(contract),
    }
    if arguments.json:
        print_json(document)
    else:
        _print(document, beside)
    if contract is not None:
        try:
            Session(engine, contract)
        except ContractError as error:
            raise ContractError(f"{beside}: {error}") from error


def _tensor(tensor: TensorInfo) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
    }


def _print(document: dict[str, Any], beside: Path) -> None:
    print(f"{document['model']}  {document['bytes']} bytes  sha256 {document['sha256']}")
    print(
        f"engine    {document['engine']} {document['engine_version']}, "
        f"delegate {document['delegate']}, threads {document['threads']}"
    )
    for kind in ("inputs", "outputs"):
        for tensor in document[kind]:
            quantized = (
                "" if tensor["scale"] is None else f", scale {tensor['scale']:.9g}, zero point {tensor['zero_point']}"
            )
            print(f"{kind[:-1]:<9} {tensor['name']}  {tensor['dtype']} {tensor['shape']}{quantized}")
    contract = document["contract"]
    if contract is None:
        print(f"contract  none at {beside}")
        return
    labels = contract["labels"]
    shown = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
    print(f"contract  {contract['task']}, version {contract['version']}, {len(labels)} labels: {shown}")
    for tensor in contract["inputs"]:
        spec = tensor["preprocess"]
        if spec is not None:
            size = f"{spec['height']} x {spec['width']}"
            print(
                f"          {tensor['name']}: {tensor['layout']}, {spec['color_order']} {size}, "
                f"resize {spec['resize']}, (pixel / {spec['divide_by']:g} - {spec['mean']}) / {spec['std']}"
            )
    for tensor in contract["outputs"]:
        print(f"          {tensor['name']}: {tensor['decoder']}")
