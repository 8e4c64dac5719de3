from __future__ import annotations

import pytest

from tests.recipe.conftest import Load, Problems
from tests.recipe.fakes import CHAIN

FILES = ", ".join(
    f"{model}/{file}"
    for model in ("baseline", "pruned", "student")
    for file in ("onnx-fp32", "onnx-int8", "tflite-fp32", "tflite-int8")
)
BEFORE = CHAIN[: CHAIN.index("gates:")]


def with_gate(gate: str, before: str = BEFORE) -> str:
    return f"{before}gates:\n  - {gate}\n"


def test_a_list_under_of_gives_a_gate_for_each(load: Load) -> None:
    recipe = load(with_gate("{of: [student/onnx-int8, pruned/onnx-int8], size: {max: 1MB}, size_reduction: {min: 5%}}"))
    assert [gate.of for gate in recipe.gates] == ["student/onnx-int8", "pruned/onnx-int8"]
    assert list(recipe.gates[0].conditions) == ["size", "size_reduction"]


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("{of: student/onnx-in8, size: {max: 1MB}}",
         "27:10: nothing is called 'student/onnx-in8'; did you mean 'student/onnx-int8'?"),
        ("{of: student, size: {max: 1MB}}",
         "27:10: gates judge files, but 'student' is a torch model; did you mean 'student/onnx-fp32'?"),
        ("{of: proof, size: {max: 1MB}}",
         "27:10: gates judge files, but 'proof' is a measurement; expected one of " + FILES),
        ("{of: files, size: {max: 1MB}}", "27:10: 'files' is a stage; name one of its files; expected one of " + FILES),
        ("{of: student/onnx-int8, size_reduction: {min: 5%, against: student/onnx}}",
         "27:64: nothing is called 'student/onnx'; did you mean 'student/onnx-int8'?"),
        ("{of: student/onnx-int8}",
         "27:5: gate 1 has no condition; expected one of quality, quality_drop, class_quality_drop, size_reduction, "
         "latency_reduction, parameters_reduction, macs_reduction, latency, size, peak_memory, int8_share, transposes"),
        ("{of: student/onnx-int8, sizes: {max: 1MB}}", "27:29: unknown gate 'sizes'; did you mean 'size'?"),
        ("{of: student/onnx-int8, size: {maximum: 1MB}}",
         "27:36: unknown key 'maximum' in gate 'size'; did you mean 'max'?"),
        ("{size: {max: 1MB}}", "27:5: missing key 'of' in gate 1"),
        ("5", "27:5: expected a mapping of keys to values, got 5"),
    ],
)  # fmt: skip
def test_gates_that_could_not_be_judged_are_refused(problems: Problems, gate: str, message: str) -> None:
    assert problems(with_gate(gate)) == [f"recipe.yaml:{message}"]


def test_a_gate_on_a_file_that_nothing_measures_is_refused(problems: Problems) -> None:
    unmeasured = BEFORE.replace("  - id: proof\n", "  - id: proof\n    from: baseline/onnx-fp32\n")
    assert problems(with_gate("{of: student/onnx-int8, size: {max: 1MB}}", unmeasured)) == [
        "recipe.yaml:28:10: no stage measures 'student/onnx-int8', so this gate could only fail; "
        "expected one of baseline/onnx-fp32, baseline/tflite-fp32"
    ]
    without = BEFORE[: BEFORE.index("  - id: proof")]
    assert problems(with_gate("{of: student/onnx-int8, size: {max: 1MB}}", without)) == [
        "recipe.yaml:24:10: no stage measures 'student/onnx-int8', so this gate could only fail; "
        "add a stage with `use: benchmark`"
    ]
