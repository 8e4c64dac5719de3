"""Help is printed without importing what only commands need: numpy and every framework stay out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from compress.__main__ import COMMANDS

_CODE = """
import sys, json, io, contextlib
before = set(sys.modules)
from compress.__main__ import main
with contextlib.redirect_stdout(io.StringIO()) as out:
    code = main(sys.argv[1:])
new = sorted({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
print(json.dumps({"code": code, "new": new, "modules": len(set(sys.modules) - before), "help": out.getvalue()}))
"""


def start(*arguments: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", _CODE, *arguments], capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["stages", "--help"]])
def test_help_imports_nothing_but_the_standard_library(arguments: list[str]) -> None:
    answer = start(*arguments)
    assert answer["code"] == 0
    assert answer["new"] == ["compress", "edge_runtime"]
    assert answer["modules"] < 100  # argparse, pathlib and what they need


def test_the_help_of_every_command_imports_nothing_else_either() -> None:
    code = f"for name in {COMMANDS!r}: main([name, '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nfrom compress.__main__ import main\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert not modules & {"numpy", "torch", "pydantic", "pydantic_core", "yaml", "psutil", "onnx", "tensorflow"}


def test_the_module_and_the_console_script_are_the_same_program() -> None:
    done = subprocess.run([sys.executable, "-m", "compress", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == start("--help")["help"]
