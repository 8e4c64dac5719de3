from itertools import pairwise

import pytest
import torch

from compress.training.schedule import learning_rate
from tests.training.nets import settings


def rates(total, **changes):
    chosen = settings(learning_rate=0.4, **changes)
    return [learning_rate(chosen, step, total) for step in range(total)]


def torch_rates(make, total):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = make(optimizer)
    found = []
    for _ in range(total):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("share", [0.3, 0.1, 0.5])
def test_one_cycle_is_that_of_torch(share):
    expected = torch_rates(
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=0.4,
            total_steps=100,
            pct_start=share,
            cycle_momentum=False,
            div_factor=25,
            final_div_factor=1e4,
        ),
        100,
    )[:100]
    assert rates(100, schedule="one-cycle", warmup=share) == pytest.approx(expected, rel=1e-9)


def test_cosine_without_warmup_is_that_of_torch():
    expected = torch_rates(lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50), 50)
    assert rates(50, schedule="cosine", warmup=0) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_warmup_rises_to_the_peak_in_equal_steps():
    found = rates(100, schedule="cosine", warmup="10%")
    assert found[:10] == pytest.approx([0.04 * step for step in range(1, 11)])
    assert max(found) == pytest.approx(0.4)
    assert all(later < earlier for earlier, later in pairwise(found[10:]))


def test_constant_stays():
    assert rates(20, schedule="constant") == [0.4] * 20
    assert rates(20, schedule="constant", warmup=0.1)[2:] == [0.4] * 18


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle", "constant"])
@pytest.mark.parametrize("total", [1, 2, 3, 10])
def test_every_step_of_a_short_run_has_a_rate(schedule, total):
    for step in range(total + 5):  # beyond the end, too: a data set may give more batches than its size says
        assert 0 <= learning_rate(settings(schedule=schedule, learning_rate=0.4), step, total) <= 0.4
