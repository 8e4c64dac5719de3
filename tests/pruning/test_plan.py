"""Plans: limits met and not overshot, multiples kept, reasons given, nothing cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compress.errors import StageError
from compress.models.cost import count
from compress.models.edits import apply_edits
from compress.pruning.importance import magnitude_scores, random_scores
from compress.pruning.plan import Limits, Rules, make_plan, protect
from compress.pruning.planned_cost import cost_model
from tests.pruning.conftest import graph_of, inputs, module, proven_graph

RULES = Rules("local", 4, 0.1)


def plan_for(name, parameters=None, macs=None, rules=RULES, graph=None, **options):
    net = module(name)
    costs = cost_model(net, inputs())
    full = costs.cost({})
    limits = Limits(
        None if parameters is None else int(full.parameters * (1 - parameters)),
        None if macs is None else int(full.macs * (1 - macs)),
    )
    graph = graph or proven_graph(name)
    return make_plan(graph, magnitude_scores(net, graph, 2), costs, limits, rules, **options)


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize(("parameters", "macs"), [(0.5, None), (None, 0.5), (0.5, 0.3), (0.3, 0.5)])
@pytest.mark.parametrize("name", ["residual", "depthwise", "grouped", "concat_of_concats", "chunk_concat", "flatten"])
def test_every_limit_is_met_by_the_network_that_is_cut(name, parameters, macs, scope):
    plan = plan_for(name, parameters, macs, Rules(scope, 4, 0.1))
    net = module(name)
    apply_edits(net, plan.edits)
    after = count(net, (1, 3, 8, 8))
    assert after == plan.after
    assert parameters is None or after.parameters <= plan.before.parameters * (1 - parameters)
    assert macs is None or after.macs <= plan.before.macs * (1 - macs)
    assert plan.reached


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("name", ["residual", "concat"])
def test_no_group_could_get_its_last_step_back(name, scope):
    """A plan takes no more than the limits need."""
    plan = plan_for(name, 0.5, 0.4, Rules(scope, 4, 0.1))
    graph, costs = proven_graph(name), cost_model(module(name), inputs())
    kept = {(edit.module, edit.dimension): len(edit.keep) for edit in plan.edits}
    for group in plan.groups:
        if group.kept == group.channels:
            continue
        members = next(entry for entry in graph.groups if entry.name == group.name).members
        wider = kept | {(m.module, m.dimension): kept[m.module, m.dimension] + 4 for m in members}
        cost = costs.cost(wider)
        assert cost.parameters > 0.5 * plan.before.parameters or cost.macs > 0.6 * plan.before.macs


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["residual", "grouped", "chunk_concat", "dense", "transposed"]),
    share=st.floats(0.05, 0.8),
    multiple=st.sampled_from([1, 2, 3, 4, 8]),
    scope=st.sampled_from(["local", "global"]),
    seed=st.integers(0, 3),
)
def test_plans_hold_their_promises_whatever_the_scores(name, share, multiple, scope, seed):
    graph, costs = proven_graph(name), cost_model(module(name), inputs())
    limits = Limits(int(costs.cost({}).parameters * (1 - share)), None)
    rules = Rules(scope, multiple, 0.1)
    plan = make_plan(graph, random_scores(graph, seed), costs, limits, rules, best_effort=True)
    assert plan.reached == (plan.after.parameters <= limits.parameters)
    kept = {edit.module: len(edit.keep) for edit in plan.edits if edit.dimension == "out"}
    for group in plan.groups:
        assert group.kept >= 0.1 * group.channels
        assert group.kept == group.channels or kept[group.name] % multiple == 0
    for edit in plan.edits:
        assert list(edit.keep) == sorted(set(edit.keep))
        assert edit.keep


def test_less_important_channels_go_first():
    plan = plan_for("plain", 0.5)
    scores = magnitude_scores(module("plain"), graph_of("plain"), 2)
    for edit in plan.edits:
        if edit.dimension == "out" and edit.module in scores:
            gone = set(range(len(scores[edit.module]))) - set(edit.keep)
            kept_scores = [scores[edit.module][index] for index in edit.keep]
            assert max(scores[edit.module][index] for index in gone) <= min(kept_scores)


def test_local_plans_take_about_the_same_share_of_every_group():
    plan = plan_for("concat_of_concats", 0.5, rules=Rules("local", 1, 0.1))
    shares = [group.kept / group.channels for group in plan.groups]
    assert max(shares) - min(shares) < 0.15


def test_global_plans_follow_the_scores_of_all_groups():
    net, graph = module("plain"), graph_of("plain")
    costs = cost_model(net, inputs())
    scores = {g.name: tuple(100.0 if g.name == "body.0.0" else 1.0 for _ in g.channels) for g in graph.groups}
    plan = make_plan(graph, scores, costs, Limits(int(0.6 * costs.cost({}).parameters), None), Rules("global", 4, 0.1))
    assert {group.name: group.kept for group in plan.groups}["body.0.0"] == 32


def test_at_least_one_multiple_stays_even_when_everything_may_go():
    plan = plan_for("residual", 0.999, rules=Rules("local", 8, 0.0), best_effort=True)
    assert {group.kept for group in plan.groups} == {8}
    assert not plan.reached


def test_groups_too_narrow_for_the_multiple_stay_and_say_so():
    plan = plan_for("squeeze_excite", 0.3, rules=Rules("local", 8, 0.1))
    (narrow,) = (entry for entry in plan.excluded if entry.name == "body.reduce")
    assert narrow.reason == "no narrower multiple of 8 channels"


def test_widths_that_are_no_multiple_become_one_when_they_are_cut():
    net = module("plain", width=20)
    from compress.pruning.graph import trace

    graph = trace(net, inputs())
    costs = cost_model(net, inputs())
    limits = Limits(int(0.8 * costs.cost({}).parameters), None)
    plan = make_plan(graph, magnitude_scores(net, graph, 2), costs, limits, Rules("local", 8, 0.1))
    assert {group.kept % 8 for group in plan.groups if group.kept < group.channels} == {0}


def test_what_cannot_be_reached_names_how_much_can_be_and_why_the_rest_stays():
    graph = protect(proven_graph("residual"), ["stem"])
    with pytest.raises(StageError) as caught:
        plan_for("residual", 0.9, 0.1, graph=graph)
    lines = str(caught.value).splitlines()
    assert "  stem.0: 16 channels stay, stem is protected" in lines
    assert lines[-1].startswith("cannot reduce parameters by 90.0%: at most ")
    assert "multiply-accumulates" not in lines[-1]


def test_protection_covers_a_module_and_what_is_below_it():
    graph = proven_graph("residual")
    assert {g.name for g in protect(graph, ["body.0.inner.0"]).groups} == {"stem.0", "body.1.inner.0.0"}
    assert {g.name for g in protect(graph, ["body.1.inner.1"]).groups} == {"body.0.inner.0.0", "body.1.inner.0.0"}
    assert protect(graph, []) == graph


def test_the_same_arguments_give_the_same_plan():
    assert plan_for("chunk_concat", 0.5) == plan_for("chunk_concat", 0.5)


def test_a_plan_can_be_read():
    text = str(plan_for("plain", 0.5))
    assert "body.0.0       32 -> " in text
    assert "classifier     10 stay: it is an output of the network" in text
    assert "parameters 9946 -> " in text
