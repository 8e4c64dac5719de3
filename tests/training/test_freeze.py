import pytest
import torch
from torch import nn

from compress.errors import StageError
from compress.training.freeze import find_modules, frozen, training_mode
from tests.training.nets import Clusters, network, run


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
        self.layer1 = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
        self.layer2 = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
        self.layer10 = nn.Linear(16, 3)

    def forward(self, inputs):
        return self.layer10(self.layer2(self.layer1(self.stem(inputs))).flatten(1))


def test_a_path_covers_what_is_below_it_and_nothing_beside_it():
    model = Named()
    with frozen(model, ["layer1"]):
        assert {name for name, p in model.named_parameters() if not p.requires_grad} == {
            "layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias"
        }  # fmt: skip
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_stars_match_across_dots():
    assert find_modules(Named(), ["layer?.1"]) == ("layer1.1", "layer2.1")
    assert find_modules(Named(), ["*.bias"]) == (
        "stem.0.bias", "stem.1.bias", "layer1.0.bias", "layer1.1.bias", "layer2.0.bias", "layer2.1.bias", "layer10.bias"
    )  # fmt: skip


def test_every_pattern_without_a_match_is_named_with_near_ones():
    with pytest.raises(StageError) as caught:
        find_modules(Named(), ["layer_1", "stem", "stme.*"])
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("no module matches 'layer_1'; near: layer1")
    assert lines[1].startswith("no module matches 'stme.*'; near: ")


def test_patterns_are_resolved_before_training_starts(tmp_path):
    data = Clusters()
    with pytest.raises(StageError, match="no module matches 'backbone'"):
        run(tmp_path, data=data, changes={"freeze": ["backbone"]})
    assert data.reads == []


def test_frozen_weights_and_statistics_do_not_move(tmp_path):
    model, start = network(), network()
    result, _ = run(tmp_path, model=model, changes={"freeze": ["0"], "ema": 0.9, "weight_decay": 0.1})
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, start.state_dict()[name]) == name.startswith("0."), name
    assert result.notes["frozen_parameters"] == sum(p.numel() for p in model[0].parameters())


def test_what_was_frozen_before_stays_frozen_afterwards(tmp_path):
    model = network()
    model[1].requires_grad_(False)
    run(tmp_path, model=model, changes={"freeze": ["0"]})
    assert not any(p.requires_grad for p in model[1].parameters())
    assert all(p.requires_grad for p in model[0].parameters())


def test_training_mode_leaves_frozen_normalization_in_evaluation_mode():
    model = Named()
    with frozen(model, ["layer1"]) as norms:
        training_mode(model, norms)
        assert {name for name, module in model.named_modules() if not module.training} == {"layer1.1"}
