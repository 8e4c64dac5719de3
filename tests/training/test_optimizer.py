import pytest
import torch

from compress.training.optimizer import build_optimizer
from tests.training.nets import network, settings


def test_biases_and_normalization_do_not_decay():
    model = network()
    decaying, free = build_optimizer(model, settings(weight_decay=0.1)).param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(p)] for p in decaying["params"]} == {"0.0.weight", "1.0.weight", "4.weight"}
    assert {names[id(p)] for p in free["params"]} == {
        "0.1.weight", "0.1.bias", "1.0.bias", "1.1.weight", "1.1.bias", "4.bias"
    }  # fmt: skip
    assert (decaying["weight_decay"], free["weight_decay"]) == (0.1, 0.0)


@pytest.mark.parametrize(("name", "cls", "decay"), [("adamw", torch.optim.AdamW, 1e-2), ("sgd", torch.optim.SGD, 5e-4)])
def test_each_optimizer_has_its_usual_decay(name, cls, decay):
    optimizer = build_optimizer(network(), settings(optimizer=name))
    assert isinstance(optimizer, cls)
    assert optimizer.param_groups[0]["weight_decay"] == decay


def test_frozen_parameters_are_left_out():
    model = network()
    model[0].requires_grad_(False)
    held = [p for group in build_optimizer(model, settings()).param_groups for p in group["params"]]
    assert len(held) == len(list(model.parameters())) - 3
