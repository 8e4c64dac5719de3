"""Exit codes, and the last line that says why."""

from __future__ import annotations

import errno
import subprocess
import sys
from typing import Any, NoReturn

import pytest

from compress.__main__ import COMMANDS, main
from compress.cli import doctor
from compress.errors import EnvironmentProblem, ExitCode, RecipeError, StageError
from edge_runtime.errors import EngineMissingError, ModelFileError


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command that raises."""

    def run(error: BaseException, *arguments: str) -> int:
        def execute(parsed: object) -> NoReturn:
            raise error

        monkeypatch.setattr(doctor, "execute", execute)
        return main(["doctor", *arguments])

    return run


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RecipeError(["r.yaml:1:1: first", "r.yaml:2:1: second"]), 2, "r.yaml:2:1: second"),
        (StageError("stage 'a' failed\nNaN loss in iteration 3"), 3, "NaN loss in iteration 3"),
        (EnvironmentProblem("the disk is full"), 5, "the disk is full"),
        (ModelFileError("model.tflite is truncated"), 3, "model.tflite is truncated"),
        (EngineMissingError("engine 'litert' is missing"), 5, "engine 'litert' is missing"),
        (ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"), 5,
         "package 'torch' is missing; install edgepress[compress]"),
        (OSError(errno.ENOSPC, "No space left on device", "/store/x"), 5, "No space left on device: /store/x"),
        (OSError("strange"), 5, "strange"),
        (KeyError("x"), 3, "unexpected KeyError: 'x' (--debug shows where; please report it)"),
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on from here"),
        (SystemExit(0), 0, None),
    ],
)  # fmt: skip
def test_an_error_ends_with_its_exit_code_and_its_cause(
    failing: Any, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, message: str | None
) -> None:
    assert failing(error) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.err.splitlines()[-1:] == ([message] if message else [])


def test_every_problem_of_a_recipe_is_a_line(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(RecipeError(["r.yaml:1:1: first", "r.yaml:2:1: second"]))
    assert capsys.readouterr().err == "r.yaml:1:1: first\nr.yaml:2:1: second\n"


def test_debug_shows_the_traceback(failing: Any) -> None:
    with pytest.raises(StageError):
        failing(StageError("x"), "--debug")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "unknown command 'rnu'; did you mean 'run'?"),
        (["--debug", "validte", "r.yaml"], "unknown command 'validte'; did you mean 'validate'?"),
        ([], "the following arguments are required: COMMAND"),
        (["run"], "the following arguments are required: RECIPE"),
        (["run", "r.yaml", "--sets", "a=1"], "unknown option '--sets'; did you mean '--set'?"),
        (["--debg", "run", "r.yaml"], "unknown option '--debg'; did you mean '--debug'?"),
        (["run", "r.yaml", "--stor=x"], "unknown option '--stor'; did you mean '--store'?"),
        (["doctor", "-x"], "unknown option '-x'; expected one of --debug, --help, -h"),
        (["run", "r.yaml", "s.yaml"], "unexpected argument 's.yaml'"),
        (["run", "r.yaml", "--set"], "argument --set: expected one argument"),
        (["cache", "list"], "argument ACTION: got 'list'; did you mean 'ls'?"),
        (["cache", "gc"], "`cache gc` needs --max-size SIZE, such as 4GiB; the other actions take none"),
        (["cache", "ls", "--max-size", "1GiB"],
         "`cache gc` needs --max-size SIZE, such as 4GiB; the other actions take none"),
        (["cache", "gc", "--max-size", "4 parsecs"],
         "argument --max-size: expected bytes as a whole number, or a size like 500MB or 4GiB, got '4 parsecs'"),
        (["report", "runs/x", "--format", "pdf"],
         "argument --format: got 'pdf'; expected one of html, json, markdown, summary"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_answered_with_the_nearest_valid_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == ExitCode.USAGE
    assert last_line(capsys) == message


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "r.yaml", "--dev", "cpu"]) == 2
    assert last_line(capsys) == "unknown option '--dev'; did you mean '--device'?"


def test_the_same_option_may_come_before_or_after_the_command(failing: Any) -> None:
    with pytest.raises(StageError):
        failing(StageError("x"), "--debug")
    with pytest.raises(StageError):
        main(["--debug", "doctor"])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--help"]) == 0
    assert f"edgepress {command}" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = (
        "import sys\nfrom compress import __main__ as program\nfrom compress.cli import doctor\n"
        "doctor.execute = lambda arguments: [print('x' * 1000) for _ in range(5000)] and 0\n"
        "sys.exit(program.main(['doctor']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0
