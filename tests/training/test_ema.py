import torch

from compress.training.ema import MovingAverage
from tests.training.nets import network


def test_the_average_follows_weights_and_running_statistics():
    model = network()
    average = MovingAverage(model, 0.5)
    start, statistics = model[4].weight.detach().clone(), model[0][1].running_mean.clone()
    for _ in range(3):
        with torch.no_grad():
            model[4].weight += 1
            model[0][1].running_mean += 1
        average.update()
    # decays 1/10, 2/11, 3/12: the early ones are low, so that the first weights are soon forgotten
    expected = ((1 * 0.9) * 2 / 11 + 2 * 9 / 11) * 3 / 12 + 3 * 9 / 12
    with average.applied():
        assert torch.allclose(model[4].weight, start + expected)
        assert torch.allclose(model[0][1].running_mean, statistics + expected)
    assert torch.allclose(model[4].weight, start + 3)


def test_the_decay_never_exceeds_what_was_asked_for():
    model = network()
    average = MovingAverage(model, 0.3)
    average.updates = 10_000
    with torch.no_grad():
        start = model[4].weight.clone()
        model[4].weight += 1
    average.update()
    with average.applied():
        assert torch.allclose(model[4].weight, start + 0.7)


def test_applying_copies_nothing_and_survives_an_error():
    model = network()
    average = MovingAverage(model, 0.9)
    address, parameter = model[4].weight.data_ptr(), model[4].weight
    try:
        with average.applied():
            assert model[4].weight.data_ptr() != address
            raise ValueError
    except ValueError:
        pass
    assert model[4].weight.data_ptr() == address
    assert model[4].weight is parameter


def test_counters_among_the_buffers_stay_the_models_own():
    model = network()
    average = MovingAverage(model, 0.9)
    model[0][1].num_batches_tracked += 7
    average.update()
    with average.applied():
        assert model[0][1].num_batches_tracked == 7
