"""Weights files: read without running anybody's code, and refused by name when they do not fit."""

from __future__ import annotations

import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from compress.errors import StageError
from compress.models.weights import load_state, read_weights, write_weights
from tests.toy import network

RAN = []


class Bomb:
    def __reduce__(self):
        return (RAN.append, ("code of a weights file ran",))


@pytest.fixture
def state():
    return network("plain").module.state_dict()


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("nested", [None, "state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_checkpoints_in_common_forms_are_read(tmp_path, state, nested, prefix):
    content = {prefix + name: tensor for name, tensor in state.items()}
    torch.save({nested: content, "epoch": 3} if nested else content, tmp_path / "w.pt")
    assert equal(read_weights(tmp_path / "w.pt"), state)


def test_safetensors_are_read(tmp_path, state):
    save_file(state, tmp_path / "w.safetensors")
    assert equal(read_weights(tmp_path / "w.safetensors"), state)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_pickled_code_is_refused_and_does_not_run(tmp_path, state, how):
    path = tmp_path / "w.pt"
    if how == "torch":
        torch.save({**state, "bomb": Bomb()}, path)
    else:
        path.write_bytes(pickle.dumps({"bomb": Bomb()}))
    with pytest.raises(
        StageError, match=r"holds (pickled code|something that is no tensor).* and is not loaded"
    ) as caught:
        read_weights(path)
    assert "torch.save(model.state_dict(), path)" in str(caught.value)
    assert RAN == []


def test_a_pickled_module_is_refused(tmp_path):
    torch.save(network("plain").module, tmp_path / "w.pt")
    with pytest.raises(StageError, match="holds pickled code"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_files_are_refused(tmp_path, state, name, share):
    path = tmp_path / name
    save_file(state, path) if name.endswith("safetensors") else torch.save(state, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(StageError, match="is not a readable"):
        read_weights(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StageError, match=r"nowhere\.pt does not exist"):
        read_weights(tmp_path / "nowhere.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "expected tensors by name, found dict"),
        ([1, 2], "expected tensors by name, found list"),
        ({"state_dict": {"lr": 0.1}}, "but lr is no tensor"),
    ],
)
def test_files_without_weights_are_refused(tmp_path, content, message):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(StageError, match=message):
        read_weights(tmp_path / "w.pt")


def test_a_misnamed_tensor_is_answered_with_the_nearest_name(tmp_path, state):
    module = network("plain").module
    state["body.0.0.wieght"] = state.pop("body.0.0.weight")
    with pytest.raises(StageError) as caught:
        load_state(module, state, tmp_path / "w.pt")
    assert str(caught.value).splitlines()[1:] == [
        "  missing: body.0.0.weight",
        "  unexpected: body.0.0.wieght (nearest: body.0.0.weight)",
    ]


def test_other_shapes_are_listed_with_both_sides(tmp_path, state):
    module = network("plain", width=24).module
    with pytest.raises(StageError, match=r"stem\.0\.weight: expected \(24, 3, 3, 3\), found \(16, 3, 3, 3\)") as caught:
        load_state(module, state, tmp_path / "w.pt")
    assert "more shapes that differ" in str(caught.value)


def test_nothing_is_loaded_when_something_does_not_fit(tmp_path, state):
    module = network("plain", seed=1).module
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    del state["classifier.bias"]
    with pytest.raises(StageError):
        load_state(module, state, tmp_path / "w.pt")
    assert equal(module.state_dict(), before)


def test_tied_and_strided_weights_are_written_and_equal_weights_give_equal_bytes(tmp_path):
    module = network("tied_weights").module
    module.to(memory_format=torch.channels_last)
    write_weights(module, tmp_path / "a")
    write_weights(network("tied_weights").module, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert equal(load_file(tmp_path / "a"), dict(module.state_dict()))
