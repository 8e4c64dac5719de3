"""ResNet-18 at 224 px: INT8 against fp32 in every engine, and what evaluation costs beside a bare loop.

    python benchmarks/resnet18_int8.py                     (about 5 minutes on a quiet machine)

Figures `resnet18-224.*` and `overhead.evaluation` of the table `chain`. The files come from the product's own export of
torchvision's network with drawn weights (latency does not depend on them); every engine runs on one thread, all files
in one interleaved run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import raw_samples
import torch
from numpy.typing import NDArray

from compress.models.architecture import Architecture, BuilderReference
from compress.models.builders import build
from compress.models.saved import save_model
from edge_runtime.benchmark import interleave
from edge_runtime.contract import Contract, InputContract, OutputContract
from edge_runtime.evaluate import evaluate
from edge_runtime.session import Session, open_session
from export.convert import convert
from export.request import ConversionRequest, Format, ModuleSource

SIZE, CLASSES = 224, 10
COMMAND = "python benchmarks/resnet18_int8.py"
SAMPLES_A_TURN, TURNS = 8, 25


def export(folder: Path) -> dict[str, Path]:
    """The four files, by `format-precision`."""
    reference = BuilderReference(
        "torchvision",
        {"name": "resnet18", "stem": "default", "num_classes": CLASSES, "in_channels": 3, "image_size": SIZE},
    )
    torch.manual_seed(0)
    module = build(reference)
    digest = save_model(module, Architecture(reference), folder / "model")
    samples = folder / "samples.npy"
    np.save(samples, np.random.default_rng(0).normal(size=(16, 3, SIZE, SIZE)).astype(np.float32))
    files: dict[str, Path] = {}
    formats: dict[Format, tuple[Any, tuple[int, ...]]] = {
        "onnx": ("NCHW", (1, 3, SIZE, SIZE)),
        "tflite": ("NHWC", (1, SIZE, SIZE, 3)),
    }
    for format_, (layout, shape) in formats.items():
        (folder / format_).mkdir()
        answer = convert(
            ConversionRequest(
                source=ModuleSource(
                    "compress.models.saved:load_model", {"directory": str(folder / "model"), "verify": digest}
                ),
                contract=Contract(
                    task="image-classification",
                    inputs=(InputContract("image", shape, "float32", layout),),
                    outputs=(OutputContract("logits", (1, CLASSES), "float32", "logits"),),
                    labels=tuple(str(number) for number in range(CLASSES)),
                ),
                format=format_,
                precisions=("fp32", "int8"),
                output_directory=str(folder / format_),
                parity=str(samples),
                calibration=str(samples),
            )
        )
        files |= {f"{format_}-{file.precision}": Path(file.path) for file in answer.files}
    return files


def int8_latency(sessions: dict[str, Session], image: NDArray[np.float32]) -> None:
    """`sessions` by `engine/precision`."""
    runs: dict[str, Callable[[], object]] = {}
    for key, session in sessions.items():
        stored = session.quantize([_laid_out(image, session)])
        runs[key] = partial(session.engine.run, stored)
    results = interleave(runs, "onnxruntime/fp32", min_rounds=60, max_rounds=120, max_seconds=180, width=0.01)
    for name, result in results.items():
        print(f"{name}: {result.median:.2f} ms, {result.ratio:.3f} of onnxruntime/fp32 {result.ratio_interval}")
    engines = sorted({key.split("/")[0] for key in sessions})
    medians = {key: float(np.median(results[key].samples_ms)) for key in results}
    best = min(engines, key=lambda engine: medians[f"{engine}/int8"] / medians[f"{engine}/fp32"])
    fastest = min(engines, key=lambda engine: medians[f"{engine}/fp32"])
    _write("resnet18-224.int8.latency", results, f"{best}/int8", f"{best}/fp32")
    for engine in engines:
        _write(f"resnet18-224.int8.latency.{engine}", results, f"{engine}/int8", f"{engine}/fp32")
    _write("resnet18-224.int8.latency-to-fastest-fp32", results, f"{best}/int8", f"{fastest}/fp32")


def _write(figure: str, results: Any, of: str, against: str) -> None:
    value, baseline = results[of].samples_ms, results[against].samples_ms
    raw_samples.write(
        "chain", figure, "latency-ratio", value, baseline, command=COMMAND, engine=f"{of} against {against}"
    )


def evaluation_overhead(file: Path, session: Session, image: NDArray[np.float32]) -> None:
    """Turns of `evaluate` and of a bare loop of set, invoke, get over the same samples, in an order drawn anew."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(file), num_threads=1)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    inputs = [_laid_out(image + number, session) for number in range(SAMPLES_A_TURN)]

    def bare() -> list[int]:
        answers = []
        for sample in inputs:
            interpreter.set_tensor(source, sample)
            interpreter.invoke()
            answers.append(int(interpreter.get_tensor(target).argmax()))
        return answers

    def samples() -> Iterator[tuple[NDArray[np.float32], int]]:
        return ((sample, 0) for sample in inputs)

    runs: dict[str, Callable[[], object]] = {"bare": bare, "ours": lambda: evaluate(session, samples())}
    results = interleave(runs, "bare", warmup=1, repeats=1, min_rounds=TURNS, max_rounds=4 * TURNS, max_seconds=120)
    print(f"evaluation against a bare loop: {results['ours'].ratio:.4f} {results['ours'].ratio_interval}")
    value, baseline = results["ours"].samples_ms, results["bare"].samples_ms
    raw_samples.write(
        "chain", "overhead.evaluation", "latency-ratio", value, baseline, command=COMMAND, engine="litert"
    )


def _laid_out(image: NDArray[np.float32], session: Session) -> NDArray[np.float32]:
    """`image` is (1, 3, H, W)."""
    nhwc = session.contract.inputs[0].layout == "NHWC"
    return np.ascontiguousarray(image.transpose(0, 2, 3, 1)) if nhwc else image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("latency", "evaluation"), help="measure one of the two parts")
    only = parser.parse_args().only
    image = np.random.default_rng(1).normal(size=(1, 3, SIZE, SIZE)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        files = export(Path(folder))
        print(f"exported in {time.perf_counter() - started:.0f} s")
        sessions = {
            f"{engine}/{precision}": open_session(files[f"{format_}-{precision}"], engine)
            for engine, format_ in (("litert", "tflite"), ("onnxruntime", "onnx"), ("openvino", "onnx"))
            for precision in ("fp32", "int8")
        }
        if only != "evaluation":
            int8_latency(sessions, image)
        if only != "latency":
            evaluation_overhead(files["tflite-fp32"], sessions["litert/fp32"], image)


if __name__ == "__main__":
    main()
