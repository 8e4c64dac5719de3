"""What a trial costs beside its training: figure `overhead.trial` of the table `tuning`.

    python benchmarks/tuning_overhead.py                       (under a minute)

One worker, a journal file, TPE over three parameters, the median pruner, five reports a trial; the objective does
nothing else. So all the time between the ends of two trials is spent on the study: taking the trial, its lease, its
parameters, reports, judgements, and its end on the disk. Trials 51 to 150 are timed: a study has some history.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import raw_samples

from tune.settings import Objective, Pruner, StudySettings
from tune.space import parse_space
from tune.storage import open_storage
from tune.study import create
from tune.trial import Trial, Work
from tune.worker import Options, work

BEFORE, TIMED, STEPS = 50, 100, 5


def objective(trial: Trial) -> dict[str, float]:
    for step in range(1, STEPS + 1):
        trial.report(step, trial.params["rate"] + step)
    return {"score": trial.params["rate"]}


def main() -> None:
    space = {"rate": {"low": 1e-5, "high": 1e-2, "log": True}, "batch": [32, 64, 128], "width": {"low": 1, "high": 8}}
    settings = StudySettings(
        name="overhead",
        space=parse_space(space),
        objectives=(Objective("score"),),
        trials=BEFORE + TIMED,
        pruner=Pruner("median", startup=5),
    )
    ends: list[float] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        study = create(open_storage(Path(folder) / "study.journal"), settings)
        work(study, Work(objective), Options(Path(folder)), lambda line: ends.append(time.perf_counter()))
    took = [round(after - before, 6) for before, after in zip(ends[BEFORE - 1 :], ends[BEFORE:], strict=False)]
    path = raw_samples.write(
        "tuning", "overhead.trial", "durations", took, command="python benchmarks/tuning_overhead.py"
    )
    result = raw_samples.compute(raw_samples.read(path))
    print(f"{result.measured * 1e3:.1f} ms a trial, {result.interval[0] * 1e3:.1f} to {result.interval[1] * 1e3:.1f}")
    print(path)


if __name__ == "__main__":
    main()
