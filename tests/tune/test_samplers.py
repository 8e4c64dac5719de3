"""Every sampler and pruner by its name, and designs that cover the space."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from tests.tune.toys import SPACE, opened, settings, states, steps
from tune.samplers import build_pruner, build_sampler, sobol
from tune.settings import PRUNERS, SAMPLERS, Pruner, PrunerName, SamplerName
from tune.space import parse_space
from tune.trial import Trial, Work
from tune.worker import Options, work

KINDS = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
    "successive-halving": optuna.pruners.SuccessiveHalvingPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
    "wilcoxon": optuna.pruners.WilcoxonPruner,
    "patient": optuna.pruners.PatientPruner,
}


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "grid"])
def test_every_sampler_works_through_a_study_within_the_space(name: SamplerName, tmp_path: Path) -> None:
    study = opened(tmp_path, sampler=name, trials=14)
    work(study, Work(steps), Options(tmp_path))
    assert states(study) == ["COMPLETE"] * 14
    points = [trial.params for trial in study.study.trials]
    assert all(point["rate"] in study.settings.space.parameters["rate"] for point in points)
    # A genetic algorithm also hands points on unchanged.
    assert len({point["rate"] for point in points}) >= (4 if name == "nsga-ii" else 14)


@pytest.mark.parametrize("name", PRUNERS)
def test_every_pruner_works_through_a_study(name: PrunerName, tmp_path: Path) -> None:
    study = opened(tmp_path, pruner=Pruner(name, startup=2, most=5), trials=12, sampler="random")
    assert isinstance(build_pruner(study.settings.pruner), KINDS[name])
    done = work(study, Work(steps), Options(tmp_path))
    assert done.complete + done.cut == 12
    # Scores that rise in every step are never cut by the one, and hardly by the other.
    assert done.cut > 0 or name in ("none", "wilcoxon", "patient")


def test_workers_draw_different_points_and_one_worker_the_same_again() -> None:
    def draw(seed: int) -> float:
        study = optuna.create_study(sampler=build_sampler(settings(), seed))
        return study.ask().suggest_float("x", 0, 1)

    assert draw(1) == draw(1) != draw(2)


def test_a_sobol_sequence_fills_the_space_evenly_and_is_extended_without_change() -> None:
    space = parse_space({**SPACE, "n": {"low": 1, "high": 4}, "s": {"low": 0.0, "high": 1.0, "step": 0.25}})
    points = sobol(space, 64, seed=3)
    assert points[:16] == sobol(space, 16, seed=3)
    for name, values in (("batch", (32, 64, 128)), ("n", (1, 2, 3, 4)), ("s", (0.0, 0.25, 0.5, 0.75, 1.0))):
        counts = [sum(point[name] == value for point in points) for value in values]
        assert sum(counts) == 64
        assert max(counts) - min(counts) <= 3
    decades = [sum(10.0**e <= point["rate"] < 10.0 ** (e + 1) for point in points) for e in (-5, -4, -3)]  # type: ignore[operator]
    assert max(decades) - min(decades) <= 2


def test_a_patient_pruner_waits_for_reports_without_improvement(tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        weak = trial.number >= 4
        for step in range(1, 9):
            trial.report(step, 0.2 - step / 100 if weak else 0.5 + step / 100)
        return {"score": 0.6}

    study = opened(tmp_path, pruner=Pruner("patient", startup=2, patience=3), trials=6)
    work(study, Work(objective), Options(tmp_path))
    assert states(study) == ["COMPLETE"] * 4 + ["PRUNED"] * 2
    assert max(study.study.trials[5].intermediate_values) == 5
