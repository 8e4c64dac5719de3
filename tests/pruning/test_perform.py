"""A plan is carried out only after its proof."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from compress.errors import StageError
from compress.models.saved import load_model, save_model
from compress.pruning.importance import magnitude_scores
from compress.pruning.perform import perform
from compress.pruning.plan import Limits, Rules, make_plan
from compress.pruning.planned_cost import cost_model
from tests import nets
from tests.pruning.conftest import inputs, proven_graph
from tests.toy import network


def planned(name):
    made = network(name)
    nets.trained_like(made.module)
    graph = proven_graph(name)
    costs = cost_model(made.module, inputs())
    limits = Limits(int(0.7 * costs.cost({}).parameters), None)
    return made, make_plan(
        graph, magnitude_scores(made.module, graph, 2), costs, limits, Rules("local", 2, 0.1), best_effort=True
    )


def test_a_cut_network_is_rebuilt_from_its_edits_alone(pattern, tmp_path):
    made, plan = planned(pattern)
    assert perform(made, plan, inputs()) < 1e-9
    assert made.architecture.edits == plan.edits
    digest = save_model(made.module, made.architecture, tmp_path)
    again = load_model(tmp_path, digest)
    assert torch.equal(again(inputs()), made.module(inputs()))
    assert str(again) == str(made.module)  # sizes that layers print: channels, groups, features


def test_a_second_cut_adds_to_the_edits_of_the_first(tmp_path):
    made, plan = planned("residual")
    perform(made, plan, inputs())
    from compress.pruning.graph import trace

    graph = trace(made.module, inputs())
    costs = cost_model(made.module, inputs())
    limits = Limits(int(0.7 * costs.cost({}).parameters), None)
    second = make_plan(graph, magnitude_scores(made.module, graph, 2), costs, limits, Rules("local", 2, 0.1))
    perform(made, second, inputs())
    save_model(made.module, made.architecture, tmp_path)
    assert torch.equal(load_model(tmp_path)(inputs()), made.module(inputs()))


def test_a_plan_that_would_change_the_function_is_refused_and_nothing_is_cut():
    made, plan = planned("concat")
    wrong = [
        replace(edit, keep=tuple(48 - len(edit.keep) + i for i in range(len(edit.keep))))
        if (edit.module, edit.dimension) == ("body.1.0", "in")
        else edit
        for edit in plan.edits
    ]
    with pytest.raises(StageError, match="cut and masked network are not equal: outputs differ by"):
        perform(made, replace(plan, edits=tuple(wrong)), inputs())
    assert made.architecture.edits == ()
    assert made.module.body[1][0].in_channels == 48


def test_a_plan_with_the_wrong_cost_is_refused():
    made, plan = planned("plain")
    wrong = replace(plan, after=replace(plan.after, parameters=plan.after.parameters - 1))
    with pytest.raises(StageError, match="planned were"):
        perform(made, wrong, inputs())
