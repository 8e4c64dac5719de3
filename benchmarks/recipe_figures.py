"""The figures of a recipe from its finished run: `quickstart.*` and `cifar10.*` of the table `chain`.

    make run && python benchmarks/recipe_figures.py quickstart runs/quickstart/TIME
    python -m compress run recipes/cifar10.yaml && python benchmarks/recipe_figures.py cifar10 runs/cifar10/TIME

A run counts only when it computed every stage itself: one that found results in the store took no time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import raw_samples

TABLE = "chain"
ENGINES = {"litert": "tflite", "onnxruntime": "onnx", "openvino": "onnx"}
TRAINING = ("train", "prune", "distill")


class Run:
    """A run folder, its report and its proof."""

    def __init__(self, folder: Path, command: str, commit: str | None) -> None:
        self.report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        self.proof = folder / "variants" / "proof"
        self.command, self.commit = command, commit

    def computed_all(self) -> bool:
        return not any(stage["cached"] for stage in self.report["stages"])

    def seconds(self, *techniques: str) -> float:
        return sum(stage["seconds"] for stage in self.report["stages"] if stage["use"] in techniques)

    def change(
        self, figure: str, field: str, of: str, against: str, kind: raw_samples.Kind = "relative-change"
    ) -> None:
        variants = self.report["variants"]
        raw_samples.write(
            TABLE, figure, kind, variants[of][field], variants[against][field], command=self.command, commit=self.commit
        )

    def measured(
        self, figure: str, kind: Literal["latency-ratio", "correctness-difference"], of: str, against: str
    ) -> None:
        raw_samples.write_from_proof(
            TABLE, figure, kind, self.proof, of, against, command=self.command, commit=self.commit
        )

    def key(self, variant: str, engine: str) -> str:
        """Name of a measurement: with `@engine` where the engine is not the file's default one."""
        name = f"{variant}@{engine}"
        return name if name in self.report["variants"] else variant


def quickstart(run: Run) -> None:
    of, against = "student/tflite-int8", "baseline/tflite-fp32"
    raw_samples.write(
        TABLE, "quickstart.seconds", "durations", [run.report["seconds"]], command=run.command, commit=run.commit
    )
    run.change("quickstart.times-smaller", "bytes", of, against, "times-smaller")
    run.measured("quickstart.latency", "latency-ratio", of, against)
    run.measured("quickstart.accuracy", "correctness-difference", of, against)


def cifar10(run: Run) -> None:
    seconds = run.seconds(*TRAINING)
    raw_samples.write(TABLE, "cifar10.training-seconds", "durations", [seconds], command=run.command, commit=run.commit)
    pruned, baseline = "pruned/tflite-fp32", "baseline/tflite-fp32"
    run.change("cifar10.pruned.parameters", "parameters", pruned, baseline)
    run.change("cifar10.pruned.macs", "macs", pruned, baseline)
    run.measured("cifar10.pruned.accuracy", "correctness-difference", pruned, baseline)
    for engine, format_ in ENGINES.items():
        fp32 = {name: run.key(f"{name}/{format_}-fp32", engine) for name in ("pruned", "baseline")}
        int8 = run.key(f"pruned/{format_}-int8", engine)
        run.measured(f"cifar10.pruned.latency.{engine}", "latency-ratio", fp32["pruned"], fp32["baseline"])
        run.measured(f"cifar10.int8.latency.{engine}", "latency-ratio", int8, fp32["pruned"])
    for format_ in ("tflite", "onnx"):
        of, against = f"pruned/{format_}-int8", f"pruned/{format_}-fp32"
        run.measured(f"cifar10.int8.accuracy.{format_}", "correctness-difference", of, against)
        run.change(f"cifar10.int8.bytes.{format_}", "bytes", of, against)


RECIPES: dict[str, tuple[Callable[[Run], None], str]] = {
    "quickstart": (quickstart, "make run"),
    "cifar10": (cifar10, "python -m compress run recipes/cifar10.yaml"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("folder", type=Path, help="the run's folder")
    parser.add_argument("--commit", help="what was measured; default: this checkout's")
    arguments = parser.parse_args()
    figures, command = RECIPES[arguments.recipe]
    run = Run(arguments.folder, command, arguments.commit)
    if not run.computed_all():
        print(f"{arguments.folder} took results from the store: its times are not those of the recipe", file=sys.stderr)
        return 2
    figures(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
