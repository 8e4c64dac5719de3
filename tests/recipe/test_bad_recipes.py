"""The catalogue of bad input: what a user can get wrong in a recipe, and exactly what is said about it."""

from __future__ import annotations

import pytest

from tests.recipe.conftest import Problems
from tests.recipe.fakes import CHAIN

FOLDER = "(relative paths are taken from the working directory, "


def changed(*replacements: tuple[str, str]) -> str:
    text = CHAIN
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return text


CASES = {
    "unknown key of the recipe": (
        [("seed: 3", "sede: 3")],
        ["recipe.yaml:3:1: unknown key 'sede' in the recipe; did you mean 'seed'?"],
    ),
    "unknown key of a stage": (
        [("epochs: 4", "epohcs: 4")],
        ["recipe.yaml:10:5: unknown key 'epohcs' in stage 'baseline' (train); did you mean 'epochs'?"],
    ),
    "misspelt key of the grammar": (
        [("from: [", "fron: [")],
        ["recipe.yaml:20:5: unknown key 'fron' in stage 'files' (export); did you mean 'from'?"],
    ),
    "unknown key inside a key": (
        [("macs: 0.65", "mac: 0.65")],
        ["recipe.yaml:14:31: unknown key 'reduce.mac' in stage 'pruned' (prune); did you mean 'macs'?"],
    ),
    "unknown key of a list's entry": (
        [("reduce: {", "steps: [{layer: a, ratio: 5%}, {layer: b, ration: 5%}]\n    reduce: {")],
        ["recipe.yaml:14:47: unknown key 'steps.1.ration' in stage 'pruned' (prune); did you mean 'ratio'?"],
    ),
    "unknown key of a source": (
        [("{source: digits}", "{source: digits, limt: 3}")],
        ["recipe.yaml:5:24: unknown key 'limt' in data source 'digits'; did you mean 'limit'?"],
    ),
    "unknown key of a model": (
        [("name: resnet18", "name: resnet18, stm: small")],
        ["recipe.yaml:9:50: unknown key 'model.stm' in stage 'baseline' (train); did you mean 'stem'?"],
    ),
    "key that nothing looks like": (
        [("macs: 0.65", "zzz: 0.65")],
        ["recipe.yaml:14:31: unknown key 'reduce.zzz' in stage 'pruned' (prune); expected one of macs, parameters"],
    ),
    "missing key": (
        [("    epochs: 4\n", "")],
        ["recipe.yaml:7:5: missing key 'epochs' in stage 'baseline' (train)"],
    ),
    "missing keys of the recipe": (
        [("task: image-classification\n", ""), ("recipe: 1\n", "")],
        [
            "recipe.yaml:1:1: missing key 'recipe' in the recipe",
            "recipe.yaml:1:1: missing key 'task' in the recipe",
        ],
    ),
    "another version of the grammar": (
        [("recipe: 1", "recipe: 2")],
        ["recipe.yaml:1:9: expected 1, got 2"],
    ),
    "text for a number": (
        [("epochs: 4", "epochs: four")],
        ["recipe.yaml:10:13: expected a whole number, got 'four'"],
    ),
    "quoted number": (
        [("epochs: 4", "epochs: '4'")],
        ["recipe.yaml:10:13: expected a whole number, got '4'"],
    ),
    "fraction for a whole number": (
        [("epochs: 4", "epochs: 4.5")],
        ["recipe.yaml:10:13: expected a whole number, got 4.5"],
    ),
    "truth for a number": (
        [("learning_rate: 2e-3", "learning_rate: true")],
        ["recipe.yaml:11:20: expected a number, got true"],
    ),
    "word of YAML 1.1 for truth": (
        [("epochs: 4", "epochs: 4\n    nesterov: yes")],
        ["recipe.yaml:11:15: expected true or false, got 'yes'; yes, no, on and off are text in a recipe"],
    ),
    "number for text": (
        [("epochs: 4", "epochs: 4\n    label: 5")],
        ["recipe.yaml:11:12: expected text, got 5; quote it to make it text: '5'"],
    ),
    "nothing for a number": (
        [("epochs: 4", "epochs:")],
        ["recipe.yaml:10:12: expected a whole number, got nothing"],
    ),
    "list for a mapping": (
        [("reduce: {parameters: 72%, macs: 0.65}", "reduce: [72%]")],
        ["recipe.yaml:14:13: expected a mapping of keys to values, got a list"],
    ),
    "number out of bounds": (
        [("epochs: 4", "epochs: 0")],
        ["recipe.yaml:10:13: expected a number of at least 1, got 0"],
    ),
    "percentage out of bounds": (
        [("72%", "172%")],
        ["recipe.yaml:14:26: expected a number of at most 1, got '172%'"],
    ),
    "fraction of the wrong form": (
        [("72%", "72 percent")],
        ["recipe.yaml:14:26: expected a fraction like 0.72 or a percentage like 72%, got '72 percent'"],
    ),
    "choice that is none": (
        [("epochs: 4", "epochs: 4\n    optimizer: adam")],
        ["recipe.yaml:11:16: expected one of adamw, sgd, rmsprop, got 'adam'; did you mean 'adamw'?"],
    ),
    "choice or number": (
        [("epochs: 4", "epochs: 4\n    steps: aut")],
        ["recipe.yaml:11:12: expected 'auto' or a whole number, got 'aut'; did you mean 'auto'?"],
    ),
    "choice in a list": (
        [("[fp32, int8]", "[fp32, in8]")],
        ["recipe.yaml:22:23: expected one of fp32, int8, int8-mixed, got 'in8'; did you mean 'int8'?"],
    ),
    "choice in place of a list": (
        [("[fp32, int8]", "int9")],
        ["recipe.yaml:22:16: expected one of fp32, int8, int8-mixed, got 'int9'; did you mean 'int8'?"],
    ),
    "list that is too short": (
        [("epochs: 4", "epochs: 4\n    pair: [1]")],
        ["recipe.yaml:11:11: expected at least 2 in the list, got a list"],
    ),
    "unknown engine": (
        [("use: benchmark\n", "use: benchmark\n    engines: [litert, onnxruntme]\n")],
        ["recipe.yaml:25:23: unknown engine 'onnxruntme'; did you mean 'onnxruntime'?"],
    ),
    "unknown engine of a gate": (
        [("metric: accuracy, max: 1%", "metric: accuracy, max: 1%, engine: openvin")],
        ["recipe.yaml:27:81: unknown engine 'openvin'; did you mean 'openvino'?"],
    ),
    "empty list": (
        [("[onnx, tflite]", "[]")],
        ["recipe.yaml:21:13: expected at least 1 in the list, got an empty list"],
    ),
    "two settings that do not fit": (
        [("epochs: 4", "epochs: 4\n    accumulation: 128")],
        ["recipe.yaml:7:5: accumulation must not exceed batch_size"],
    ),
    "unknown technique": (
        [("use: distill", "use: distil")],
        ["recipe.yaml:16:10: unknown technique 'distil'; did you mean 'distill'?"],
    ),
    "unknown task": (
        [("task: image-classification", "task: image-clasification")],
        ["recipe.yaml:4:7: unknown task 'image-clasification'; did you mean 'image-classification'?"],
    ),
    "unknown target": (
        [("seed: 3", "target: x86-avx")],
        ["recipe.yaml:3:9: unknown target 'x86-avx'; did you mean 'x86-avx2'?"],
    ),
    "unknown reference": (
        [("compression-table", "compresion-table")],
        ["recipe.yaml:28:12: unknown reference 'compresion-table'; did you mean 'compression-table'?"],
    ),
    "unknown data source": (
        [("source: digits", "source: digit")],
        ["recipe.yaml:5:16: unknown data source of image-classification 'digit'; did you mean 'digits'?"],
    ),
    "no data source": (
        [("{source: digits}", "{limit: 3}")],
        ["recipe.yaml:5:7: missing key 'source' in data; expected one of digits, image-folder"],
    ),
    "unknown model source": (
        [("source: torchvision", "source: torchvison")],
        ["recipe.yaml:9:21: unknown model source 'torchvison'; did you mean 'torchvision'?"],
    ),
    "model of the wrong form": (
        [("{source: torchvision, name: resnet18}", "resnet18")],
        ["recipe.yaml:9:12: expected a function like package.module:function, or a mapping with the key `source`, "
         "got 'resnet18'"],
    ),
    "missing file": (
        [("epochs: 4", "epochs: 4\n    weights: gone.safetensors")],
        ["recipe.yaml:11:14: file 'gone.safetensors' does not exist " + FOLDER + "{here})"],
    ),
    "missing folder": (
        [("{source: digits}", "{source: image-folder, folder: images}")],
        ["recipe.yaml:5:38: folder 'images' does not exist " + FOLDER + "{here})"],
    ),
    "missing folder by an absolute path": (
        [("{source: digits}", "{source: image-folder, folder: /nowhere/images}")],
        ["recipe.yaml:5:38: folder '/nowhere/images' does not exist"],
    ),
    "cycle": (
        [("use: prune\n", "use: prune\n    from: student\n")],
        ["recipe.yaml:14:11: stages form a cycle: pruned needs student needs pruned"],
    ),
    "dangling from": (
        [("[baseline, pruned, student]", "[baseline, prned, student]")],
        ["recipe.yaml:20:22: nothing is called 'prned'; did you mean 'pruned'?"],
    ),
    "dangling teacher": (
        [("teacher: baseline", "teacher: basline")],
        ["recipe.yaml:17:14: nothing is called 'basline'; did you mean 'baseline'?"],
    ),
    "dangling baseline": (
        [("baseline: baseline/tflite-fp32", "baseline: baseline/tflite-fp23")],
        ["recipe.yaml:25:15: nothing is called 'baseline/tflite-fp23'; did you mean 'baseline/tflite-fp32'?"],
    ),
    "dangling gate": (
        [("of: student/tflite-int8", "of: studnt/tflite-int8")],
        ["recipe.yaml:27:10: nothing is called 'studnt/tflite-int8'; did you mean 'student/tflite-int8'?"],
    ),
    "metric that the task has not": (
        [("metric: accuracy", "metric: acuracy")],
        ["recipe.yaml:27:54: unknown metric of image-classification 'acuracy'; did you mean 'accuracy'?"],
    ),
    "duplicate id": (
        [("id: student", "id: pruned"), ("of: student", "of: pruned"), (", student]", "]")],
        ["recipe.yaml:15:9: two stages are called 'pruned'; every id must be unique"],
    ),
    "name collision": (
        [("    teacher: baseline", "    from: [baseline, pruned]\n    teacher: baseline")],
        ["recipe.yaml:15:9: stage 'student' gives several results called 'student'; "
         'tell them apart with `as:`, for example `as: "{{parent}}-student"`'],
    ),
    "bad id": (
        [("id: proof", "id: the proof")],
        ["recipe.yaml:23:9: expected a name of letters, digits, - and _ that starts with a letter or digit, "
         "got 'the proof'"],
    ),
    "stage that is no mapping": (
        [("  - id: proof\n", "  - prune\n  - id: proof\n")],
        ["recipe.yaml:23:5: expected a mapping of keys to values, got 'prune'"],
    ),
    "cycle through a file": (
        [("use: prune\n", "use: prune\n    from: baseline/onnx-fp32\n")],
        ["recipe.yaml:14:11: stages form a cycle: pruned needs files needs pruned"],
    ),
    "prune of a file": (
        [("gates:", "  - {id: again, use: prune, from: student/onnx-fp32}\ngates:")],
        ["recipe.yaml:26:35: stage 'again' (prune) works on torch models, but 'student/onnx-fp32' is a file; "
         "did you mean 'student'?"],
    ),
    "benchmark of a torch model": (
        [("use: benchmark\n", "use: benchmark\n    from: [files, student]\n")],
        ["recipe.yaml:25:19: stage 'proof' (benchmark) works on files, but 'student' is a torch model; "
         "did you mean 'student/onnx-fp32'?"],
    ),
    "duplicate key": (
        [("epochs: 4", "epochs: 4\n    epochs: 5")],
        ["recipe.yaml:11:5: key 'epochs' is given twice, first in line 10"],
    ),
    "broken YAML": (
        [("epochs: 4", "epochs: [4")],
        ["recipe.yaml:11:18: not valid YAML: expected ',' or ']', but got ':' (while parsing a flow sequence)"],
    ),
    "tab": (
        [("    epochs: 4", "\tepochs: 4")],
        ["recipe.yaml:10:1: not valid YAML: found character '\\t' that cannot start any token "
         "(while scanning for the next token)"],
    ),
    "undefined variable": (
        [("{source: digits}", "{source: image-folder, folder: ${DATA}/train}")],
        ["recipe.yaml:5:38: environment variable DATA is not set; set it, or write ${{DATA:-default}}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_answered_with_position_expectation_and_nearest_name(problems: Problems, case: str) -> None:
    from pathlib import Path

    replacements, expected = CASES[case]
    found = problems(changed(*replacements))
    assert found == [message.format(here=Path.cwd()) for message in expected]


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    text = changed(
        ("seed: 3", "sede: 3"),
        ("epochs: 4", "epohcs: 4"),
        ("72%", "x"),
        ("teacher: baseline", "teacher: 5"),
        ("[onnx, tflite]", "[onnx, keras]"),
        ("from: [baseline", "from: [basline"),
        ("quality_drop", "qualty_drop"),
        ("compression-table", "table"),
    )
    assert [problem.split(":")[1] for problem in problems(text)] == ["3", "10", "14", "17", "20", "21", "27", "28"]
