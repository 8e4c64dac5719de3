"""A disk that fills up at any moment: exit code 5, a message that helps, nothing half-written, a rerun that works."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compress.errors import EnvironmentProblem, ExitCode
from compress.pipeline import cache
from compress.pipeline.files import disk_is_full
from export.errors import ConversionError
from tests.pipeline.conftest import Project, digests

FILLS = 8


@contextmanager
def full_from(nth: int, counted: list[int]) -> Iterator[None]:
    """From the nth change of a file on, every change that needs space fails; removing goes on working."""
    originals: dict[str, Any] = {name: getattr(os, name) for name in ("fsync", "replace", "link", "mkdir")}

    def failing(name: str) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            counted[0] += 1
            if counted[0] > nth:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return originals[name](*given, **options)

        return call

    for name in originals:
        setattr(os, name, failing(name))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def test_a_full_disk_at_any_moment_leaves_nothing_half_written(project: Project) -> None:
    undisturbed = digests(project.run(store=project.path / "undisturbed").directory)
    counted = [0]
    with full_from(10**9, counted):
        project.run(store=project.path / "counted")
    rng = random.Random(5)
    for nth in [0, 1, *rng.sample(range(2, counted[0]), FILLS)]:
        store = project.path / f"full-{nth}"
        with full_from(nth, [0]):
            try:
                result = project.run(store=store)
            except EnvironmentProblem as error:
                message = str(error)
            else:
                message = result.message
                assert result.exit_code is ExitCode.ENVIRONMENT, f"change {nth}: {result}"
        assert "no space left on device" in message.lower(), f"change {nth}"
        assert not list(store.rglob(".*.json.*")), f"change {nth} left a temporary file"
        assert cache.verify(store).damaged == ()
        result = project.run(store=store)
        assert result.exit_code is ExitCode.OK
        assert digests(result.directory) == undisturbed


def test_the_message_says_how_much_is_free_and_what_helps(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAIL", "small:full")
    message = project.run().message
    assert "MiB free" in message
    assert "edgepress cache gc" in message
    assert "Nothing was stored half-written" in message


def test_what_a_stage_wrote_before_the_disk_was_full_is_removed_and_its_state_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.pipeline.fakes import Cut

    run = Cut.run

    def fill(self: Cut, parents: Any, settings: Any, context: Any) -> Any:
        run(self, parents, settings, context)
        raise OSError(errno.ENOSPC, "No space left on device", str(context.output / "weights"))

    monkeypatch.setattr(Cut, "run", fill)
    assert project.run().exit_code is ExitCode.ENVIRONMENT
    (work,) = (project.store.path / "work").iterdir()
    assert [path.name for path in work.iterdir()] == ["state"]
    assert (work / "state/state.json").is_file()


def test_a_full_file_system_of_its_own(project: Project, tmp_path: Path) -> None:
    """The real thing, where mounting a small file system is allowed."""
    small = tmp_path / "small"
    small.mkdir()
    if os.system(f"mount -t tmpfs -o size=256k tmpfs {small} 2>/dev/null") != 0:
        pytest.skip("mounting a file system needs rights that this process does not have")
    try:
        result = project.run("stages.baseline.size=2000000", store=small / "store")
        assert result.exit_code is ExitCode.ENVIRONMENT
        assert "no space left on device while stage 'baseline'" in result.message
        assert cache.verify(small / "store").damaged == ()
        assert project.run("stages.baseline.size=2000", store=small / "store").exit_code is ExitCode.OK
    finally:
        os.system(f"umount {small}")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        ConversionError("onnx: the file could not be written", kind="disk-full"),
        RuntimeError("Error while serializing: Io(Os { code: 28, message: 'No space left on device' })"),
    ],
)
def test_a_full_disk_is_recognized_whoever_reports_it(error: Exception) -> None:
    assert disk_is_full(error)
    outer = ValueError("while saving")
    outer.__cause__ = error
    assert disk_is_full(outer)


def test_other_errors_are_not_taken_for_a_full_disk() -> None:
    assert not disk_is_full(OSError(errno.ENOENT, "No such file or directory"))
    assert not disk_is_full(ValueError("28"))
