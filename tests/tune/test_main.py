"""`python -m tune`: commands, wrong command lines, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tune.conftest import free_port
from tests.tune.toys import ROOT, opened, states
from tune.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wroker"], "unknown command 'wroker'; did you mean 'worker'?"),
        (["status"], "the following arguments are required: URL"),
        (["status", "nowhere.journal"], "there is no study at nowhere.journal"),
        (["status", "mysq://h/d"], "did you mean 'mysql'?"),
        (["best", "toy.journal", "--pick", "score=3"], "expected OBJECTIVE<=VALUE or OBJECTIVE>=VALUE, got 'score=3'"),
        (["best", "toy.journal", "--pick", "scor<=3"], "did you mean 'score'?"),
        (["export", "toy.journal", "--format", "jsn"], "did you mean 'json'?"),
        (["worker", "toy.journal", "--index", "-1"], "expected a whole number, got '-1'"),
        (["worker", "toy.journal", "--timeout", "0"], "expected a number of seconds above 0, got '0'"),
        (["worker", "toy.journal", "--study", "tow"], "nothing is called 'tow' in this storage; did you mean 'toy'?"),
        (["dashboard"], "name a storage; below"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_what_was_expected(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    opened(tmp_path, trials=1)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_storage_out_of_reach_ends_with_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", f"grpc://127.0.0.1:{free_port()}", "--wait", "0.5", "--folder", str(tmp_path)]) == 5
    assert "the same command goes on from there" in capsys.readouterr().err


def test_a_study_is_worked_on_shown_and_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = opened(tmp_path, trials=3)
    assert main(["best", "toy.journal"]) == 3
    assert "has a result yet" in capsys.readouterr().err
    assert main(["worker", "toy.journal", "--folder", str(tmp_path)]) == 0
    assert "3 complete, 0 cut, 0 failed" in capsys.readouterr().out
    assert states(study) == ["COMPLETE"] * 3
    assert main(["best", "toy.journal"]) == 0
    assert set(json.loads(capsys.readouterr().out)["params"]) == {"rate", "batch"}
    assert main(["status", "toy.journal"]) == 0
    assert "3 complete" in capsys.readouterr().out
    assert main(["export", "toy.journal"]) == 0
    assert capsys.readouterr().out.startswith("number,state,score,rate,batch,steps")


def test_a_study_without_a_function_cannot_be_worked_on_from_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(tmp_path, function=None)
    assert main(["worker", str(tmp_path / "toy.journal")]) == 2
    assert "names no function" in capsys.readouterr().err


def test_help_imports_neither_optuna_nor_a_framework() -> None:
    code = (
        "import sys; from tune.__main__ import main; assert main(['worker', '--help']) == 0; "
        "assert not {'optuna', 'torch', 'numpy', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
