"""Studies are made once, opened again, extended, and never mixed."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from tests.tune.toys import SPACE, opened, settings, states, steps
from tune.errors import StudyChanged, UsageError
from tune.settings import Objective, Pruner, StudySettings, check
from tune.storage import open_storage
from tune.study import create, find_function, open_study, take
from tune.trial import Work
from tune.worker import Options, work


def test_a_study_offers_all_its_trials_at_once(tmp_path: Path) -> None:
    assert states(opened(tmp_path, trials=4)) == ["WAITING"] * 4


def test_opening_it_again_adds_nothing_and_more_trials_add_the_difference(tmp_path: Path) -> None:
    opened(tmp_path, trials=4)
    assert len(opened(tmp_path, trials=4).study.trials) == 4
    assert len(opened(tmp_path, trials=6).study.trials) == 6


def test_a_trial_is_taken_once(tmp_path: Path) -> None:
    first, second = opened(tmp_path, trials=3), opened(tmp_path, trials=3)
    taken = [take(study) for study in (first, second, first, second)]
    assert len({number for number in taken if number is not None}) == 3
    assert taken[3] is None


def test_settings_come_back_from_the_storage_as_they_were(tmp_path: Path) -> None:
    made = opened(tmp_path, pruner=Pruner("hyperband", most=9), payload={"a": [1]}, identity="x", limits={})
    assert open_study(open_storage(tmp_path / "toy.journal")).settings == made.settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": {**SPACE, "batch": [32, 64]}}, r"batch was \[32, 64, 128\] and is \[32, 64\] now"),
        ({"space": {"rate": SPACE["rate"]}}, "batch was .* and is left out now"),
        ({"objectives": (Objective("loss", "minimize"),)}, "its objectives are: maximize score"),
        ({"identity": "another recipe"}, "what is trained has changed"),
        ({"sampler": "qmc"}, "its trials were laid out by the sampler tpe"),
    ],
)
def test_a_study_that_changed_is_explained_and_never_merged(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    before = opened(tmp_path)
    with pytest.raises(StudyChanged, match=message) as raised:
        opened(tmp_path, **changes)
    assert raised.value.exit_code == 2
    assert "give this study another name" in str(raised.value)
    assert len(before.study.trials) == 6
    assert open_study(open_storage(tmp_path / "toy.journal")).settings == before.settings


def test_a_study_of_other_tools_is_not_taken_over(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "toy.journal")
    optuna.create_study(storage=storage, study_name="toy", direction="maximize")
    with pytest.raises(StudyChanged, match="was not made by this version"):
        create(storage, settings())


def test_a_study_is_found_by_name_or_because_it_is_the_only_one(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "toy.journal")
    with pytest.raises(UsageError, match="it has none"):
        open_study(storage)
    create(storage, settings(name="first"))
    assert open_study(storage).settings.name == "first"
    create(storage, settings(name="second"))
    with pytest.raises(UsageError, match="it has 2: first, second"):
        open_study(storage)
    with pytest.raises(UsageError, match="did you mean 'second'"):
        open_study(storage, "secnod")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "tpf"}, "unknown sampler 'tpf'; did you mean 'tpe'?"),
        ({"pruner": Pruner("medium")}, "unknown pruner 'medium'; did you mean 'median'?"),  # type: ignore[arg-type]
        ({"pruner": Pruner("median", startup=-1)}, "at least 0 for startup, got -1"),
        ({"pruner": Pruner("wilcoxon", p=1.5)}, "a number between 0 and 1 for p, got 1.5"),
        ({"pruner": Pruner("hyperband", most=0)}, "at least 1 for most, got 0"),
        ({"trials": 0}, "trials: expected a whole number of at least 1, got 0"),
        ({"name": "a/b"}, "name: expected letters, digits"),
        ({"objectives": ()}, "objectives: expected at least one"),
        ({"objectives": (Objective("a"), Objective("a"))}, "'a' is given twice"),
        ({"objectives": (Objective("a", "up"),)}, "expected maximize or minimize for 'a', got 'up'"),  # type: ignore[arg-type]
        ({"objectives": (Objective("a"), Objective("b")), "sampler": "cma-es"}, "cma-es takes a single objective"),
        ({"limits": {"laency": 1.0}}, "no objective that is measured first is called 'laency'"),
        ({"function": "no function"}, "expected package.module:function"),
    ],
)
def test_wrong_settings_say_what_was_expected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        check(settings(**changes))
    assert message in str(raised.value)


def test_a_function_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot find the module 'nowhere'"):
        find_function("nowhere:make")
    with pytest.raises(UsageError, match="did you mean 'make'"):
        find_function("tests.tune.toys:makes")


def test_a_grid_is_tried_point_by_point_and_no_more(tmp_path: Path) -> None:
    space = {"rate": [1e-3, 2e-3], "batch": {"low": 1, "high": 3}}
    study = opened(tmp_path, sampler="grid", space=space, trials=40)
    work(study, Work(steps), Options(tmp_path))
    points = [(trial.params["rate"], trial.params["batch"]) for trial in study.study.trials]
    assert sorted(points) == [(rate, batch) for rate in (1e-3, 2e-3) for batch in (1, 2, 3)]


def test_a_cut_grid_goes_on_where_it_was_when_trials_are_added(tmp_path: Path) -> None:
    space = {"rate": [1e-3, 2e-3, 3e-3], "batch": [1, 2, 3]}
    work(opened(tmp_path, sampler="grid", space=space, trials=4), Work(steps), Options(tmp_path))
    study = opened(tmp_path, sampler="grid", space=space, trials=9)
    work(study, Work(steps), Options(tmp_path))
    assert len({tuple(trial.params.values()) for trial in study.study.trials}) == 9


def test_settings_refuse_what_another_version_stored() -> None:
    with pytest.raises((KeyError, TypeError)):
        StudySettings.from_json({"name": "a"})
