"""What `compress --help` imports, and what it takes beyond bare Python: figures `help.*` of the table `chain`.

python benchmarks/startup.py                           (about 20 seconds)
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

import raw_samples

COMMAND = "python benchmarks/startup.py"
FRAMEWORKS = (
    "torch", "torchvision", "tensorflow", "onnx", "onnxruntime", "openvino", "litert_torch", "ai_edge_litert", "jax",
    "numpy", "pydantic", "yaml", "PIL",
)  # fmt: skip
ROUNDS = 31
_LIST_IMPORTS = f"""
import sys
from compress.__main__ import main
try:
    main(["--help"])
except SystemExit:
    pass
print("\\nimported:", ",".join(sorted(set({FRAMEWORKS!r}) & set(sys.modules))))
"""


def imported() -> list[str]:
    """Which of FRAMEWORKS `compress --help` imports."""
    done = subprocess.run([sys.executable, "-c", _LIST_IMPORTS], capture_output=True, text=True, check=True)
    names = done.stdout.rsplit("imported:", 1)[1].strip()
    return names.split(",") if names else []


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - started


def main() -> None:
    found = imported()
    raw_samples.write("chain", "help.frameworks-imported", "count", [len(found)], command=COMMAND)
    runs = {"help": [sys.executable, "-m", "compress", "--help"], "bare": [sys.executable, "-c", "pass"]}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    generator = random.Random(0)
    for command in runs.values():
        seconds(command)
    for _ in range(ROUNDS):
        for name in generator.sample(sorted(runs), len(runs)):
            samples[name].append(seconds(runs[name]))
    path = raw_samples.write(
        "chain", "help.seconds-over-python", "duration-difference", samples["help"], samples["bare"], command=COMMAND
    )
    result = raw_samples.compute(raw_samples.read(path))
    print(f"imports {found or 'no framework'}; {result.measured:.3f} s {result.interval} over bare Python")


if __name__ == "__main__":
    main()
