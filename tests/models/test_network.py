"""Networks with their architecture: seeded, checked against the contract, saved as variants."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from compress.errors import StageError
from compress.models.cost import count
from compress.models.network import check_contract, new_network, parent_network
from compress.recipe.model_reference import ModelReference
from tests.toy import ToyData, ToyTask, network, variant

CONTRACT = ToyTask().contract(ToyData())


def new(seed):
    model = ModelReference.model_validate("tests.nets:plain")
    return new_network(model, {"num_classes": 3, "in_channels": 3}, seed=seed)


def test_fresh_weights_follow_the_seed_and_leave_random_states_alone():
    state = torch.get_rng_state()
    one, same, other = (new(seed).module.classifier.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_the_task_knows_is_part_of_the_architecture():
    arguments = new(0).architecture.builder.arguments
    assert (arguments["num_classes"], arguments["function"]) == (3, "tests.nets:plain")


def test_a_variant_remembers_its_cost_and_comes_back_as_a_parent(tmp_path):
    made = network("residual")
    saved = variant(made, tmp_path)
    cost = count(made.module, (1, 3, 8, 8))
    assert (saved.parameters, saved.macs) == (cost.parameters, cost.macs)
    again = parent_network(saved)
    assert again.architecture == made.architecture
    assert torch.equal(again.module(ToyData().inputs), made.module(ToyData().inputs))
    with pytest.raises(StageError, match="was changed after it was made"):
        parent_network(replace(saved, digest="0" * 64))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Sequential(nn.Flatten(), nn.Linear(192, 5)),
            r"shape \(\(1, 5\),\), the data asks for \(\(1, 3\),\)",
        ),
        (nn.Linear(7, 3), r"does not take inputs of shape \(1, 3, 8, 8\): RuntimeError"),
    ],
)
def test_networks_that_do_not_fit_the_contract_are_refused(module, message):
    with pytest.raises(StageError, match=message):
        check_contract(module, CONTRACT)
