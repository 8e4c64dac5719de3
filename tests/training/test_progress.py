import pytest

from compress.training import progress
from compress.training.progress import Reporter, format_seconds
from compress.training.state import EpochRecord, State


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_steps_are_told_every_two_seconds_with_the_time_left(clock):
    told = []
    state = State()
    report = Reporter(lambda message, **fields: told.append((message, fields)), epochs=2, steps=10, state=state)
    for batch in range(1, 6):
        clock[0] += 1
        state.batch = batch
        report.step(state, 0.5)
    assert [message for message, _ in told] == [
        "epoch 1/2, batch 2/10: loss 0.5000, 18 s left",
        "epoch 1/2, batch 4/10: loss 0.5000, 16 s left",
    ]
    assert told[1][1]["fraction"] == pytest.approx(0.2)


def test_the_time_left_of_a_continued_run_is_judged_from_this_attempt(clock):
    told = []
    state = State(epoch=1, batch=0)
    report = Reporter(lambda message, **fields: told.append(fields), epochs=2, steps=10, state=state)
    clock[0] += 5
    state.batch = 5
    report.step(state, 0.5)
    assert told[0]["seconds_left"] == pytest.approx(5)
    assert told[0]["fraction"] == pytest.approx(0.75)


def test_early_stopping_leaves_no_time(clock):
    told = []
    state = State()
    report = Reporter(lambda message, **fields: told.append((message, fields)), epochs=9, steps=10, state=state)
    state.epoch, state.stopped = 2, True
    state.history.append(EpochRecord(1, 0.25, {"accuracy": 0.75}, 1e-3, 4.0))
    report.epoch(state)
    message, fields = told[0]
    assert message == "epoch 2/9: loss 0.2500, validation accuracy 0.7500, stopped early"
    assert (fields["fraction"], fields["seconds_left"], fields["accuracy"]) == (1.0, 0.0, 0.75)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (200, "3 min 20 s"), (7530, "2 h 5 min")]
)
def test_durations_are_written_for_people(seconds, text):
    assert format_seconds(seconds) == text
