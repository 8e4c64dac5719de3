"""Each command calls what does the work, and prints what it gave."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compress.__main__ import main
from compress.errors import ExitCode
from compress.pipeline import cache as store
from compress.pipeline import plan as planning
from compress.pipeline import registry as installed
from compress.pipeline import run as running
from compress.pipeline.cache import Collection, Entry, Listing, Verification
from compress.pipeline.run import RunResult
from tests.recipe.fakes import CHAIN, registry


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed, "installed_registry", registry)
    Path("r.yaml").write_text(CHAIN)
    return "r.yaml"


def test_run_passes_everything_on_and_gives_the_runs_exit_code(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []

    def run(*arguments: Any, **options: Any) -> RunResult:
        calls.append((arguments, options))
        return RunResult(ExitCode.GATE_FAILED, Path("runs/x"), 1, 2, "done\ngate quality_drop failed")

    monkeypatch.setattr(running, "run", run)
    code = main(["run", recipe, "--set", "seed=1", "--set", "name=x", "--store", "s", "--runs", "r", "--device", "cpu"])
    assert code == 4
    assert calls == [
        (
            ("r.yaml", ["seed=1", "name=x"]),
            {"store": Path("s"), "runs": Path("r"), "directory": None, "device": "cpu", "listener": None},
        )
    ]
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == "gate quality_drop failed"
    assert captured.out == ""


def test_a_run_that_passed_says_so_on_stdout(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def run(*arguments: Any, listener: Any, **options: Any) -> RunResult:
        seen.append(listener(None))
        return RunResult(ExitCode.OK, Path("runs/x"), 0, 5, "nothing to do")

    monkeypatch.setattr(running, "run", run)
    assert main(["run", recipe, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("nothing to do\n", "")
    assert seen == [None]


def test_validate_says_what_a_recipe_holds(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", recipe, "--set", "seed=4"]) == 0
    assert capsys.readouterr().out == "r.yaml: valid; stages: 5, results: 16, gates: 1\n"


def test_validate_prints_every_problem(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", recipe, "--set", "stages.baseline.epochs=x", "--set", "sed=1"]) == 2
    assert capsys.readouterr().err == (
        "--set stages.baseline.epochs=x: expected a whole number, got 'x'\n"
        "--set sed=1: unknown key 'sed' in the recipe; did you mean 'seed'?\n"
    )


def test_plan_prints_the_plan(recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(planning, "plan", lambda *arguments, **options: (arguments, options))
    monkeypatch.setattr(planning, "render_plan", repr)
    assert main(["plan", recipe, "--store", "s"]) == 0
    assert capsys.readouterr().out == "(('r.yaml', []), {'store': PosixPath('s')})\n"


ENTRY = Entry("result", "a" * 64, "train", ("baseline",), 1000, 0.0, 0.0, False)


@pytest.mark.parametrize("action", ["ls", "verify", "gc --max-size 0"])
def test_a_misspelt_store_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["cache", *action.split(), "--store", "typo"]) == 2
    assert "typo: there is no store here" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()


def test_cache_ls_prints_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    monkeypatch.setattr(store, "list_entries", lambda folder: Listing(folder, (ENTRY,), 1000))
    monkeypatch.setattr(store, "render_listing", lambda listing: f"{listing.store}: {listing.size_bytes}")
    assert main(["cache", "ls", "--store", "s"]) == 0
    assert capsys.readouterr().out == "s: 1000\n"


@pytest.mark.parametrize(("damaged", "code"), [((), 0), (("result aa: file b is truncated",), 5)])
def test_cache_verify_fails_when_something_was_damaged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damaged: tuple[str, ...], code: int
) -> None:
    monkeypatch.setattr(store, "verify", lambda folder: Verification(3, 9, 4096, damaged))
    assert main(["cache", "verify"]) == code
    captured = capsys.readouterr()
    assert captured.out == "checked 3 results, 9 files, 4096 bytes\n"
    assert captured.err == "".join(f"dropped: {text}\n" for text in damaged)


@pytest.mark.parametrize(("size", "count"), [("4GiB", 4 * 2**30), ("0", 0), ("1.5kB", 1500)])
def test_cache_gc_takes_a_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: str, count: int
) -> None:
    asked: list[int] = []

    def gc(max_size: int, folder: Path | None) -> Collection:
        asked.append(max_size)
        return Collection((ENTRY,), 1000, 0, True)

    monkeypatch.setattr(store, "gc", gc)
    assert main(["cache", "gc", "--max-size", size]) == 0
    assert asked == [count]
    assert "removed train baseline" in capsys.readouterr().out


def test_cache_gc_fails_when_the_limit_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "gc", lambda max_size, folder: Collection((), 0, 5000, False))
    assert main(["cache", "gc", "--max-size", "1kB"]) == 5


def test_stages_lists_everything_and_shows_one(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages"]) == 0
    out = capsys.readouterr().out
    assert "stage:" in out
    assert "image-folder" in out
    assert "keys: format, precision" in out
    assert main(["stages", "train"]) == 0
    assert "  epochs: whole number >= 1 (required)\n      Passes over the training data." in capsys.readouterr().out


def test_stages_prints_the_tables_of_the_documentation(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages", "train", "--format", "markdown"]) == 0
    assert "| `epochs` | whole number >= 1 | required | Passes over the training data. |" in capsys.readouterr().out


def test_stages_answers_an_unknown_name_with_the_nearest(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages", "trian"]) == 2
    assert capsys.readouterr().err == "nothing is called 'trian'; did you mean 'train'?\n"


def test_schema_prints_json(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Edgepress recipe"


def test_report_and_compare_name_a_folder_without_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "runs/x"]) == 2
    assert "runs/x" in capsys.readouterr().err
    assert main(["compare", "runs/x", "runs/y"]) == 2
    assert "runs/x" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["summary", "markdown", "json", "html"])
def test_report_prints_the_form_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    from compress.report import html, markdown, terminal

    report = SimpleNamespace(model_dump_json=lambda indent: "json")
    monkeypatch.setattr(terminal, "load_report", lambda run: report)
    monkeypatch.setattr(terminal, "render_summary", lambda report: "summary")
    monkeypatch.setattr(markdown, "render_markdown", lambda report: "markdown")
    monkeypatch.setattr(html, "render_html", lambda report: "html")
    assert main(["report", "runs/x", "--format", form]) == 0
    assert capsys.readouterr().out == f"{form}\n"
