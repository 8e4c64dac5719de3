"""Who works on a trial, and how a trial whose worker is gone is found and given to another.

A worker writes its host, boot, process and a counter into its trial, and raises the counter while it lives. On the
same host a trial is abandoned when the process is gone: certain, and at once. On another host it is abandoned when its
counter has stood still for `GRACE` seconds of the *observer's* clock, so that clocks need not agree.

An abandoned trial is failed first, which exactly one observer can do, and then offered again with the same parameters,
reports and folder, so that it goes on from its last checkpoint. A worker that was only out of reach finds its trial
taken at its next report (TrialLost), and what it has is dropped.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

BEAT = 15.0
"""Seconds between two beats."""
GRACE = 150.0
"""Seconds without a beat after which another host's worker counts as gone."""
LEASE, RETRY_OF, ORIGIN, FRUITLESS = "tune:lease", "tune:retry_of", "tune:origin", "tune:fruitless"
CAUSE = "cause"
MOST_FRUITLESS = 5
"""A trial that has taken this many workers with it since its last report is not offered again."""


@dataclass(frozen=True)
class Owner:
    """A process. `started` tells it from a later one of the same number; `token` from another of the same time."""

    host: str
    boot: str
    process: int
    started: str
    token: str


def this_process() -> Owner:
    """The owner that stands for the calling process."""
    return Owner(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()), secrets.token_hex(8))


def is_gone(owner: Owner) -> bool | None:
    """Whether the process has ended; None when it runs (or ran) on another host, where this cannot be seen."""
    if owner.host != socket.gethostname() or owner.boot != _boot():
        # The same host after a restart has another boot: its processes are gone, but a second host may have its name.
        return None
    return _started(owner.process) != owner.started


class Heart:
    """Beats for one worker: raises the counter of the trial that it holds, from a thread of its own."""

    def __init__(self, storage: Any, owner: Owner, beat: float = BEAT) -> None:
        self._storage, self._owner, self._beat = storage, owner, beat
        self._held: int | None = None
        self._count = 0
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=2 * self._beat)

    def hold(self, trial_id: int) -> None:
        """Takes the lease of a trial. Raises what the storage raises."""
        with self._guard:
            self._held = trial_id
            self._write(trial_id)

    def drop(self) -> None:
        """Holds nothing from now on."""
        with self._guard:
            self._held = None

    def _run(self) -> None:
        while not self._stop.wait(self._beat):
            with self._guard:
                if self._held is not None:
                    # A missed beat is not the end: the next may come through, and the worker's own calls report.
                    with suppress(Exception):
                        self._write(self._held)

    def _write(self, trial_id: int) -> None:
        self._count += 1
        self._storage.set_trial_system_attr(trial_id, LEASE, {**asdict(self._owner), "beat": self._count})


class Watch:
    """What one observer has seen of leases, and when."""

    def __init__(self, grace: float = GRACE) -> None:
        self._grace = grace
        self._seen: dict[int, tuple[Any, float]] = {}

    def is_abandoned(self, trial: FrozenTrial) -> bool:
        """Whether a running trial has no living worker."""
        lease = trial.system_attrs.get(LEASE)
        owner = _owner(lease)
        if owner is not None:
            gone = is_gone(owner)
            if gone is not None:
                return gone
        # Between being taken and being leased a trial has no owner; that takes milliseconds, unless its worker died.
        now = time.monotonic()
        before, since = self._seen.get(trial._trial_id, (None, now))
        if trial._trial_id not in self._seen or before != lease:
            self._seen[trial._trial_id] = (lease, now)
            return False
        return now - since > self._grace


def rescue(study: Study, watch: Watch) -> list[int]:
    """Fails abandoned trials and offers them again. Returns the numbers of those that this call has failed."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    rescued = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if not watch.is_abandoned(trial):
            continue
        given_up = fruitless(trial) >= MOST_FRUITLESS
        try:
            if given_up:
                cause = f"{MOST_FRUITLESS} workers in a row ended without a word while they worked on this trial"
                study._storage.set_trial_user_attr(trial._trial_id, CAUSE, cause)
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except (UpdateFinishedTrialError, RuntimeError):  # another observer was quicker, or its worker has told it
            continue
        rescued.append(trial.number)
        if not given_up:
            # Read again: what was reported between our reading and its end belongs to the retry, too.
            study.add_trial(retry(study._storage.get_trial(trial._trial_id)))
    return rescued


def retry(trial: FrozenTrial) -> FrozenTrial:
    """A waiting trial that goes on where another one was left."""
    from optuna.trial import TrialState, create_trial

    attributes = {key: value for key, value in trial.system_attrs.items() if key != LEASE}
    attributes |= {
        "fixed_params": {**attributes.get("fixed_params", {}), **trial.params},
        RETRY_OF: [*trial.system_attrs.get(RETRY_OF, ()), trial.number],
        ORIGIN: origin_of(trial),
        FRUITLESS: [fruitless(trial), len(trial.intermediate_values)],
    }
    return create_trial(
        state=TrialState.WAITING,
        user_attrs=dict(trial.user_attrs),
        system_attrs=attributes,
        intermediate_values=dict(trial.intermediate_values),
    )


def fruitless(trial: FrozenTrial) -> int:
    """How many workers, the present one included, have had this trial since its last report."""
    count, reports = trial.system_attrs.get(FRUITLESS, (0, 0))
    return 1 if len(trial.intermediate_values) > reports else int(count) + 1


def origin_of(trial: FrozenTrial) -> int:
    """The number of the first trial in a chain of retries: what all of them share a folder by."""
    return int(trial.system_attrs.get(ORIGIN, trial.number))


def superseded(trials: list[FrozenTrial]) -> set[int]:
    """Numbers of trials that were left by their workers and offered again: they count as one with their retry."""
    return {number for trial in trials for number in trial.system_attrs.get(RETRY_OF, ())}


def _owner(lease: Any) -> Owner | None:
    try:
        return Owner(**{key: lease[key] for key in ("host", "boot", "process", "started", "token")})
    except (KeyError, TypeError):
        return None


def _boot() -> str:
    """Changes when the host starts, and differs between containers that share a host name but not processes."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _started(process: int) -> str:
    """When a process was started, in the kernel's ticks; empty when there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _alive_elsewhere(process)
    return "" if fields[0] in "ZX" else fields[19]


def _alive_elsewhere(process: int) -> str:
    """Without /proc (macOS) a process can only be asked whether it is there."""
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "running"
