"""Every classification network of torchvision below 100 million parameters, cut to half of them."""

from __future__ import annotations

import gc

import pytest
import torch

from compress.models.architecture import Architecture, BuilderReference
from compress.models.builders import build
from compress.models.network import Network
from compress.models.torchvision_names import TORCHVISION_MODELS
from compress.pruning.graph import trace
from compress.pruning.importance import magnitude_scores
from compress.pruning.perform import perform
from compress.pruning.plan import Limits, Rules, make_plan
from compress.pruning.planned_cost import cost_model
from compress.pruning.trial import proven
from tests.nets import trained_like

LARGE = {
    *("convnext_large", "efficientnet_v2_l", "regnet_x_32gf", "regnet_y_32gf", "regnet_y_128gf"),
    *("vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
    *("vit_h_14", "vit_l_16", "vit_l_32", "wide_resnet101_2"),
}
"""More than 100 million parameters: left out, a smaller relative has the same graph."""
SIZES = {"maxvit_t": 224, "inception_v3": 96}
PARTIAL = ("vit_", "swin_", "maxvit")
"""Transformers lose channels of their feed-forward layers; attention and the residual stream stay."""


def reference(name: str) -> BuilderReference:
    size = SIZES.get(name, 64)
    return BuilderReference("torchvision", {"name": name, "num_classes": 10, "in_channels": 3, "image_size": size})


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(TORCHVISION_MODELS) - LARGE))
def test_half_of_the_parameters_go_and_the_cut_network_equals_the_masked_one(name):
    torch.manual_seed(0)
    made = Network(trained_like(build(reference(name))), Architecture(reference(name)))
    inputs = torch.randn(1, 3, *2 * (SIZES.get(name, 64),))
    graph = proven(made.module, trace(made.module, inputs), inputs, seed=0)
    costs = cost_model(made.module, inputs)
    limits = Limits(costs.cost({}).parameters // 2, None)
    scores = magnitude_scores(made.module, graph, 2)
    plan = make_plan(graph, scores, costs, limits, Rules("local", 4, 0.1), best_effort=True)
    print(f"{name}: {len(graph.groups)} groups, parameters {plan.after.parameters / plan.before.parameters - 1:+.0%}")
    for excluded in plan.excluded:
        print(f"  {excluded.name}: {excluded.channels} channels stay, {excluded.reason}")
    assert perform(made, plan, inputs) < 1e-9
    assert plan.reached or name.startswith(PARTIAL)
    assert plan.after.parameters < 0.7 * plan.before.parameters
    gc.collect()
