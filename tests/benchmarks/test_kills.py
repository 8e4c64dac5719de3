"""Real training and conversion, killed at random moments: every rerun ends with the digests of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import kills
import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("mlxtend")
    return kills.write_recipe(tmp_path)


@pytest.mark.slow
def test_twenty_kills_of_real_training_and_conversion_change_nothing(folder: Path) -> None:
    trials = list(kills.kill_trials(folder, 20, seed=20))
    assert [trial.number for trial in trials if trial.differs] == []
    assert sum(trial.killed for trial in trials) == 20


@pytest.mark.slow
def test_cold_stores_give_byte_identical_files(folder: Path) -> None:
    assert kills.files_that_differ(folder, 1) == [0]
