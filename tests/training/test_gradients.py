"""The gradient of many micro-batches is that of the large batch, and what else happens between loss and step."""

import pytest
import torch
from torch import nn

from compress.training.run import Run, task_objective
from tests.training.nets import Classify, Clusters, network, settings


def plain(dtype):
    """No batch statistics and no dropout, which differ between batch sizes by their nature."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 3))
    return net.to(dtype)


def gradients(model, dtype=torch.float32, penalty=None, **changes):
    """Gradients that the first step was made with."""
    chosen = settings(**{"batch_size": 48, "optimizer": "sgd", **changes})
    objective = task_objective(Classify(), chosen.label_smoothing)
    run = Run.start(model, chosen, "cpu", False, objective, penalty)
    batch = next(Clusters(dtype=dtype).training_batches(chosen.batch_size, 0, 0))
    run.optimize(batch, 1e-3)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("parts", [2, 5, 48])  # 5 does not divide 48: the parts differ in size
def test_accumulation_gives_the_gradient_of_the_large_batch(dtype, tolerance, parts):
    whole = gradients(plain(dtype), dtype)
    accumulated = gradients(plain(dtype), dtype, accumulation=parts)
    assert (whole - accumulated).abs().max() <= tolerance * whole.abs().max()


def test_accumulation_adds_a_penalty_once():
    def penalty(model):
        return 0.1 * sum(parameter.square().sum() for parameter in model.parameters())

    whole = gradients(plain(torch.float64), torch.float64, penalty)
    accumulated = gradients(plain(torch.float64), torch.float64, penalty, accumulation=6)
    assert (whole - accumulated).abs().max() <= 1e-10 * whole.abs().max()


def test_the_loss_reported_is_the_mean_over_the_batch():
    losses = []
    for parts in (1, 5):
        chosen = settings(batch_size=48, accumulation=parts)
        run = Run.start(plain(torch.float64), chosen, "cpu", False, task_objective(Classify(), 0.0), None)
        losses.append(run.optimize(next(Clusters(dtype=torch.float64).training_batches(48, 0, 0)), 1e-3))
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


def test_clipping_bounds_the_norm_and_keeps_the_direction():
    free = gradients(network(dropout=0))
    clipped = gradients(network(dropout=0), clip_norm=0.01)
    assert clipped.norm() == pytest.approx(0.01, rel=1e-3)
    assert torch.cosine_similarity(free, clipped, dim=0) > 0.9999
    assert torch.equal(gradients(network(dropout=0), clip_norm=1e6), free)


def test_label_smoothing_reaches_the_loss():
    assert not torch.equal(gradients(network(dropout=0)), gradients(network(dropout=0), label_smoothing=0.2))


def test_bf16_computes_in_bf16_and_keeps_weights_in_float32():
    seen = []
    model = plain(torch.float32)
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    whole = gradients(plain(torch.float32))
    reduced = gradients(model, precision="bf16")
    assert seen == [torch.bfloat16]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.cosine_similarity(whole, reduced, dim=0) > 0.99


def test_the_step_uses_the_rate_it_is_given():
    model = plain(torch.float32)
    before = model[0].weight.detach().clone()
    chosen = settings(optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=0.5)
    run = Run.start(model, chosen, "cpu", False, task_objective(Classify(), 0.0), None)
    run.optimize(next(Clusters().training_batches(16, 0, 0)), 0.125)
    assert torch.allclose(model[0].weight, before - 0.125 * model[0].weight.grad)
