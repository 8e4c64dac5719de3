"""Trials lost, doubled or left running when workers are killed: figures `tuning.kills.*` of the table `tuning`.

    python benchmarks/tuning_kills.py                          (about 5 minutes)
    python benchmarks/tuning_kills.py --storage postgresql://USER@HOST/DATABASE --figure postgresql

Four workers share a study of 200 short trials (five reports each). Every 20 s one of them is killed by SIGKILL and
another one is started. A dashboard is open over the same storage and is polled every second.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import raw_samples

from tune.dashboard import make_server
from tune.lease import origin_of, superseded
from tune.settings import Objective, Pruner, StudySettings
from tune.space import parse_space
from tune.storage import open_storage
from tune.study import OpenStudy, create
from tune.trial import Trial, Work

STEPS = 5
HERE = Path(__file__).resolve()


def make(payload: Mapping[str, Any]) -> Work:
    """What a worker process calls."""

    def objective(trial: Trial) -> dict[str, float]:
        for step in range(1, STEPS + 1):
            time.sleep(payload["seconds"] / STEPS)
            trial.report(step, trial.params["x"] * step)
        return {"score": trial.params["x"]}

    return Work(objective)


def start(url: str, folder: Path, index: int) -> subprocess.Popen[bytes]:
    paths = [str(HERE.parent), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    command = [sys.executable, "-m", "tune", "worker", url, "--study", "kills", "--folder", str(folder)]
    return subprocess.Popen(
        [*command, "--index", str(index)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def poll(address: str, stop: threading.Event, answers: Counter[str]) -> None:
    """Reads the study through the dashboard, as an open page does."""
    while not stop.wait(1.0):
        try:
            with urllib.request.urlopen(f"{address}/api/studies", timeout=30) as answer:
                answers[str(answer.status)] += 1
        except OSError as error:
            answers[str(error)] += 1


def work(study: OpenStudy, url: str, folder: Path, workers: int, every: float) -> int:
    """Runs the study to its end; the number of kills."""
    generator, kills, last = random.Random(0), 0, time.monotonic()
    running = [start(url, folder, index) for index in range(workers)]
    while any(process.poll() is None for process in running):
        time.sleep(0.2)
        waiting = any(trial.state.name == "WAITING" for trial in study.study.get_trials(deepcopy=False))
        if waiting and time.monotonic() - last >= every:
            victim = generator.randrange(workers)
            running[victim].send_signal(signal.SIGKILL)
            running[victim].wait()
            kills, last = kills + 1, time.monotonic()
            running[victim] = start(url, folder, workers + kills)
    return kills


def judge(study: OpenStudy, trials: int) -> dict[str, int]:
    """Trials that were lost, doubled, or left running."""
    found = study.study.get_trials(deepcopy=False)
    again = superseded(found)
    ended = Counter(origin_of(trial) for trial in found if trial.state.name == "COMPLETE")
    return {
        "lost": trials - len(ended),
        "doubled": sum(count - 1 for count in ended.values()),
        "running": sum(trial.state.name == "RUNNING" for trial in found if trial.number not in again),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storage", help="a storage's URL (default: a new journal file)")
    parser.add_argument("--figure", default="journal", help="last part of the figures' names (default: journal)")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a trial (default: 2)")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between kills (default: 20)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        url = arguments.storage or str(folder / "kills.journal")
        settings = StudySettings(
            name="kills",
            space=parse_space({"x": {"low": 0.0, "high": 1.0}}),
            objectives=(Objective("score"),),
            trials=arguments.trials,
            sampler="random",
            pruner=Pruner("none"),
            function="tuning_kills:make",
            payload={"seconds": arguments.seconds},
        )
        study = create(open_storage(url), settings)
        server = make_server(url, "127.0.0.1", 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stop, answers = threading.Event(), Counter[str]()
        threading.Thread(
            target=poll, args=(f"http://127.0.0.1:{server.server_port}", stop, answers), daemon=True
        ).start()
        kills = work(study, url, folder, arguments.workers, arguments.every)
        stop.set()
        server.shutdown()
        found = judge(study, arguments.trials)
    print(f"{kills} kills; the dashboard answered {dict(answers)}; {found}")
    if (arguments.trials, arguments.workers, arguments.every) == (200, 4, 20.0):
        command = "python benchmarks/tuning_kills.py"
        command += f" --storage {arguments.figure}: --figure {arguments.figure}" if arguments.storage else ""
        for name, count in found.items():
            figure = f"kills.{arguments.figure}.{name}"
            print(raw_samples.write("tuning", figure, "count", [count], command=command))


if __name__ == "__main__":
    main()
