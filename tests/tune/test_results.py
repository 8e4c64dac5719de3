"""The best trial, the front, tables and exports of a study."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.tune.test_worker import TWO, WIDTH, accuracy, measure
from tests.tune.toys import opened, settings, steps
from tune.errors import TuneError, UsageError
from tune.results import Limit, best, counts_text, export, pareto, records, status_text, table
from tune.settings import Pruner
from tune.storage import open_storage
from tune.study import OpenStudy, create
from tune.trial import Work
from tune.worker import Options, work


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> OpenStudy:
    path = tmp_path_factory.mktemp("two")
    study = create(
        open_storage(path / "toy.journal"),
        settings(space=WIDTH, objectives=TWO, trials=20, sampler="qmc", pruner=Pruner("none")),
    )
    work(study, Work(accuracy, measure), Options(path))
    return study


def test_the_best_trial_is_best_in_the_first_objective(two: OpenStudy) -> None:
    found = best(records(two), two.settings)
    assert found.params["width"] >= 8
    assert found.values["latency"] == min(r.values["latency"] for r in records(two) if r.params["width"] >= 8)


def test_a_pick_keeps_its_limit_and_takes_the_best_within_it(two: OpenStudy) -> None:
    found = best(records(two), two.settings, {"latency": Limit(0.005)})
    assert found.params["width"] == max(w for w in (r.params["width"] for r in records(two)) if w <= 5)
    floor = best(records(two), two.settings, {"latency": Limit(0.012, at_most=False)})
    assert floor.values["latency"] >= 0.012


def test_a_limit_that_nothing_keeps_says_how_near_it_came(two: OpenStudy) -> None:
    smallest = min(record.values["latency"] for record in records(two))
    with pytest.raises(TuneError, match=f"the nearest values: latency {smallest:.6g}"):
        best(records(two), two.settings, {"latency": Limit(0.0001)})


def test_a_limit_on_no_objective_names_the_nearest(two: OpenStudy) -> None:
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        best(records(two), two.settings, {"latnecy": Limit(1.0)})


def test_the_front_has_only_trials_that_no_other_beats(two: OpenStudy) -> None:
    shown = pareto(records(two), two.settings)
    accuracies = [record.values["accuracy"] for record in shown]
    latencies = [record.values["latency"] for record in shown]
    assert accuracies == sorted(accuracies, reverse=True)
    assert latencies == sorted(latencies, reverse=True)
    assert all(record.params["width"] <= 9 for record in shown)


def test_a_table_has_aligned_columns_of_objectives_and_parameters(two: OpenStudy) -> None:
    lines = table(pareto(records(two), two.settings), two.settings)
    assert lines[0].split() == ["trial", "accuracy", "latency", "width", "steps"]
    assert len({len(line) for line in lines}) == 1


def test_csv_and_json_hold_every_trial(two: OpenStudy) -> None:
    rows = list(csv.DictReader(io.StringIO(export(two, "csv"))))
    document = json.loads(export(two, "json"))
    assert len(rows) == len(document["trials"]) == 20
    assert float(rows[3]["latency"]) == document["trials"][3]["values"]["latency"]
    assert document["study"]["space"] == WIDTH
    with pytest.raises(UsageError, match="unknown format 'cvs'; did you mean 'csv'"):
        export(two, "cvs")


def test_status_counts_and_shows_the_best(tmp_path: Path) -> None:
    study = opened(tmp_path, trials=3)
    assert status_text(study) == "toy: 3 waiting; 0 steps reported"
    with pytest.raises(TuneError, match="has a result yet"):
        best(records(study), study.settings)
    work(study, Work(steps), Options(tmp_path))
    assert counts_text(records(study)) == "3 complete"
    assert "best:" in status_text(study)
