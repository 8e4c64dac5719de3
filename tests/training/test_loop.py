import gc
import math
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from compress.errors import DataError, StageError
from compress.training.loop import train
from tests.training.nets import Classify, Clusters, network, run, same_bytes, settings, silent


def test_training_learns(tmp_path):
    result, model = run(tmp_path, changes={"epochs": 8})
    assert result.validation["accuracy"] > 0.9
    assert result.history[-1].loss < result.history[0].loss / 2
    assert not model.training
    assert Classify().evaluate(model, Clusters(), "validation", 10, "cpu") == result.validation


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path):
    torch.manual_seed(11)
    one = run(tmp_path / "1", changes={"ema": 0.9})[1]
    torch.manual_seed(22)
    np.random.seed(5)
    two = run(tmp_path / "2", changes={"ema": 0.9})[1]
    three = run(tmp_path / "3", changes={"ema": 0.9}, seed=1)[1]
    assert same_bytes(one, two)
    assert not same_bytes(one, three)


def test_random_states_and_switches_are_what_they_were(tmp_path):
    model = network()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    run(tmp_path, model=model)
    assert torch.equal(torch.rand(2), expected)
    assert not torch.are_deterministic_algorithms_enabled()
    assert gc.isenabled()


def test_weights_come_back_contiguous_and_trainable(tmp_path):
    model = run(tmp_path, changes={"memory_format": "channels-last", "freeze": ["0"]})[1]
    assert all(parameter.is_contiguous() and parameter.requires_grad for parameter in model.parameters())


def test_the_memory_format_does_not_change_what_is_learned(tmp_path):
    last = run(tmp_path / "1", changes={"memory_format": "channels-last"})[0]
    contiguous = run(tmp_path / "2", changes={"memory_format": "contiguous"})[0]
    assert last.history[-1].loss == pytest.approx(contiguous.history[-1].loss, rel=1e-3)


class Scripted(Classify):
    """Validation accuracies as written down; remembers the weights that were judged."""

    def __init__(self, scores):
        self.scores = list(scores)
        self.judged = []

    def evaluate(self, model, data, split, batch_size, device):
        assert split == "validation"
        self.judged.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"accuracy": self.scores[len(self.judged) - 1]}


def test_the_best_weights_on_validation_are_kept(tmp_path):
    task = Scripted([0.2, 0.7, 0.5, 0.7])
    result, model = run(tmp_path, task=task, changes={"epochs": 4})
    assert (result.best_epoch, result.epochs_run, result.validation) == (1, 4, {"accuracy": 0.7})
    assert all(torch.equal(tensor, task.judged[1][name]) for name, tensor in model.state_dict().items())


def test_the_last_weights_are_kept_when_asked_for(tmp_path):
    task = Scripted([0.2, 0.7, 0.5])
    result, model = run(tmp_path, task=task, changes={"keep": "last"})
    assert (result.validation, result.notes["kept_epoch"]) == ({"accuracy": 0.5}, 2)
    assert all(torch.equal(tensor, task.judged[2][name]) for name, tensor in model.state_dict().items())


def test_early_stopping_ends_after_patience_and_restores_the_best(tmp_path):
    task = Scripted([0.5, 0.6, 0.604, 0.603, 0.9])
    changes = {"epochs": 5, "early_stopping": {"patience": 2, "min_delta": 0.01}}
    result, model = run(tmp_path, task=task, changes=changes)
    assert (result.epochs_run, result.best_epoch, result.notes["stopped_early"]) == (4, 2, True)
    assert all(torch.equal(tensor, task.judged[2][name]) for name, tensor in model.state_dict().items())


def test_a_slow_but_steady_gain_resets_patience(tmp_path):
    task = Scripted([0.5, 0.505, 0.51, 0.515, 0.52, 0.525])
    changes = {"epochs": 6, "early_stopping": {"patience": 3, "min_delta": 0.01}}
    assert run(tmp_path, task=task, changes=changes)[0].epochs_run == 6


def test_the_average_is_what_is_judged_and_kept(tmp_path):
    task = Scripted([0.5, 0.6])
    _, model = run(tmp_path, task=task, changes={"epochs": 2, "ema": 0.9, "keep": "last"})
    plain = run(tmp_path / "plain", changes={"epochs": 2, "keep": "last"})[1]
    assert not same_bytes(model, plain)
    assert all(torch.equal(tensor, task.judged[1][name]) for name, tensor in model.state_dict().items())


def test_the_test_split_cannot_be_read_while_training(tmp_path):
    class Peeking(Classify):
        def evaluate(self, model, data, split, batch_size, device):
            return super().evaluate(model, data, "test", batch_size, device)

    with pytest.raises(DataError, match="the test split must not be read here"):
        run(tmp_path, task=Peeking())


def test_an_objective_replaces_the_loss_and_a_penalty_is_added_once_a_step(tmp_path):
    calls = {"objective": 0, "penalty": 0}

    def objective(model, batch):
        calls["objective"] += 1
        return model(batch.inputs).square().mean()

    def penalty(model):
        calls["penalty"] += 1
        return 0.5 * model[4].weight.abs().sum()

    changes = {"epochs": 2, "accumulation": 2, "keep": "last"}
    _, model = run(tmp_path, objective=objective, penalty=penalty, changes=changes)
    assert calls == {"objective": 24, "penalty": 12}
    free = run(tmp_path / "free", objective=objective, changes=changes)[1]
    assert model[4].weight.abs().sum() < free[4].weight.abs().sum()


def test_a_penalty_may_have_nothing_to_add(tmp_path):
    one = run(tmp_path / "1", penalty=lambda model: None)[1]
    assert same_bytes(one, run(tmp_path / "2")[1])


def test_on_epoch_is_called_with_the_weights_of_the_training_not_the_average(tmp_path):
    seen = []
    task = Scripted([0.1, 0.2, 0.3])
    run(tmp_path, task=task, changes={"ema": 0.99}, on_epoch=lambda epoch, model: seen.append(
        (epoch, torch.equal(model[4].weight, task.judged[epoch]["4.weight"]))))  # fmt: skip
    assert seen == [(0, False), (1, False), (2, False)]


def test_progress_tells_loss_metrics_share_and_time_left(tmp_path):
    told = []
    run(tmp_path, progress=lambda message, **fields: told.append((message, fields)))
    assert [fields["fraction"] for _, fields in told] == pytest.approx([1 / 3, 2 / 3, 1])
    assert all("validation accuracy" in message and "left" in message for message, _ in told)
    assert [fields["epoch"] for _, fields in told] == [0, 1, 2]
    assert told[-1][1]["seconds_left"] == 0


def test_history_holds_every_epoch(tmp_path):
    result, _ = run(tmp_path)
    assert [record.epoch for record in result.history] == [0, 1, 2]
    assert result.steps == 18
    assert result.seconds == pytest.approx(sum(record.seconds for record in result.history))
    assert result.history[-1].learning_rate < result.history[0].learning_rate


class Poisoned(nn.Module):
    """Gives NaN from its n-th training call on."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, inputs):
        self.calls -= self.training
        return inputs * math.nan if self.calls < 0 else inputs


def test_a_loss_that_is_not_finite_names_the_iteration_and_the_module(tmp_path):
    model = network()
    model[1].append(Poisoned(8))
    with pytest.raises(
        StageError, match=r"the loss is nan at iteration 8 \(epoch 2, batch 2\): .* of 1\.3 \(Poisoned\)"
    ):
        run(tmp_path, model=model)


class BadGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, inputs):
        return inputs.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * math.inf


class Exploding(nn.Module):
    def forward(self, inputs):
        return BadGradient.apply(inputs)


def test_a_gradient_that_is_not_finite_names_the_module_it_first_reached(tmp_path):
    model = network()
    model[1].append(Exploding())
    with pytest.raises(
        StageError, match=r"norm of the gradient is (nan|inf) at iteration 0 .* output of 1\.2 \(ReLU\)"
    ):
        run(tmp_path, model=model)


def test_inputs_that_are_not_finite_name_the_samples(tmp_path):
    data = Clusters()
    data.inputs[42] = math.nan
    with pytest.raises(StageError, match="the inputs of the samples with the ids 42 are not finite"):
        run(tmp_path, data=data)


def test_weights_that_are_not_finite_are_named(tmp_path):
    model = network()
    model[4].weight.data[0, 0] = math.inf
    with pytest.raises(StageError, match=r"the parameter 4\.weight was not finite before this step"):
        run(tmp_path, model=model)


def test_a_rate_that_is_far_too_high_is_caught(tmp_path):
    changes = {"optimizer": "sgd", "learning_rate": 1e18, "warmup": 0}
    with pytest.raises(StageError, match=r"is (nan|inf) at iteration"):
        run(tmp_path, changes=changes)


def test_an_error_leaves_random_states_and_switches_as_they_were(tmp_path):
    model = network()
    model[1].append(Poisoned(0))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with pytest.raises(StageError):
        run(tmp_path, model=model)
    assert torch.equal(torch.rand(1), expected)
    assert gc.isenabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_nothing_is_left_to_train_when_all_is_frozen(tmp_path):
    with pytest.raises(StageError, match="every parameter is frozen"):
        run(tmp_path, changes={"freeze": ["*"]})


def tensors():
    gc.collect()
    return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())


def test_the_number_of_live_tensors_is_the_same_after_every_epoch(tmp_path):
    counts = []
    run(tmp_path, changes={"epochs": 50, "batch_size": 48, "ema": 0.9, "clip_norm": 1.0, "keep": "last"},
        on_epoch=lambda epoch, model: counts.append(tensors()))  # fmt: skip
    assert len(set(counts[2:])) == 1


def test_no_graph_outlives_a_step(tmp_path):
    alive = []

    def objective(model, batch):
        outputs = model(batch.inputs)
        assert all(reference() is None for reference in alive)
        alive.append(weakref.ref(outputs))
        return nn.functional.cross_entropy(outputs, batch.targets)

    run(tmp_path, objective=objective, changes={"epochs": 2})
    assert len(alive) == 12


def test_gradients_are_gone_during_validation_when_they_can_be(tmp_path):
    """Validation runs in inference mode; what it leaves must not be attached to a graph."""
    result, model = run(tmp_path)
    assert not any(isinstance(value, torch.Tensor) for record in result.history for value in vars(record).values())
    assert all(parameter.grad_fn is None for parameter in model.parameters())


def test_a_data_set_smaller_than_a_batch_trains(tmp_path):
    result, _ = run(tmp_path, data=Clusters(count=12), changes={"batch_size": 64})
    assert result.steps == 3


def test_a_network_without_images_trains(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    result = train(
        model, Classify(), Clusters(), settings(), seed=0, device="cpu", work=tmp_path, progress=silent
    )  # fmt: skip
    assert result.notes["memory_format"] == "contiguous"
