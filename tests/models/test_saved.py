"""Variants on disk: two files, no pickle, every byte accounted for."""

from __future__ import annotations

import json

import pytest
import torch

from compress.errors import StageError
from compress.models.architecture import Architecture, BuilderReference, ChannelEdit
from compress.models.builders import ModelSource, build
from compress.models.saved import ARCHITECTURE, WEIGHTS, digest, load_model, read_architecture, save_model
from tests.toy import ToyData, network


@pytest.fixture
def saved(tmp_path):
    made = network("plain")
    return made, tmp_path, save_model(made.module, made.architecture, tmp_path)


def test_a_variant_comes_back_as_it_was(saved):
    made, folder, _ = saved
    again = load_model(folder)
    assert read_architecture(folder) == made.architecture
    assert not again.training
    assert torch.equal(again(ToyData().inputs), made.module.eval()(ToyData().inputs))


def test_a_variant_is_two_files_without_pickle(saved):
    _, folder, _ = saved
    assert {path.name for path in folder.iterdir()} == {ARCHITECTURE, WEIGHTS}
    json.loads((folder / ARCHITECTURE).read_text())
    assert (folder / WEIGHTS).read_bytes()[8:9] == b"{"  # the header of safetensors


def test_equal_networks_give_equal_bytes_and_digests(saved, tmp_path_factory):
    made, folder, first = saved
    made.module.to(memory_format=torch.channels_last)
    other = tmp_path_factory.mktemp("other")
    assert save_model(made.module, made.architecture, other) == first == digest(folder)
    assert all((folder / name).read_bytes() == (other / name).read_bytes() for name in (ARCHITECTURE, WEIGHTS))
    made.module.classifier.bias.data[0] += 1e-6
    assert save_model(made.module, made.architecture, other) != first


@pytest.mark.parametrize("name", [ARCHITECTURE, WEIGHTS])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999])
def test_a_changed_byte_is_refused(saved, name, share):
    _, folder, value = saved
    content = bytearray((folder / name).read_bytes())
    content[int(share * len(content))] ^= 1
    (folder / name).write_bytes(bytes(content))
    with pytest.raises(StageError):
        load_model(folder)
    with pytest.raises(StageError):
        load_model(folder, verify=value)


def test_another_variant_in_its_place_is_refused_by_its_digest(saved):
    _, folder, value = saved
    other = network("plain", seed=1)
    save_model(other.module, other.architecture, folder)
    load_model(folder)
    with pytest.raises(StageError, match="was changed after it was made"):
        load_model(folder, verify=value)


@pytest.mark.parametrize("name", [ARCHITECTURE, WEIGHTS])
def test_a_missing_file_is_named(saved, name):
    _, folder, _ = saved
    (folder / name).unlink()
    with pytest.raises(StageError, match=f"is not a saved variant: {name} is missing"):
        load_model(folder)


def test_a_builder_that_changed_since_is_noticed(tmp_path):
    made = network("plain")
    arguments = {**made.architecture.builder.arguments, "arguments": {"width": 24}}
    save_model(made.module, Architecture(BuilderReference("module:function", arguments)), tmp_path)
    with pytest.raises(StageError, match=r"expected \(24,\), found \(16,\)"):
        load_model(tmp_path)


def test_loading_leaves_random_states_alone(saved):
    _, folder, _ = saved
    state = torch.get_rng_state()
    load_model(folder)
    assert torch.equal(torch.get_rng_state(), state)


def test_edits_are_replayed_in_order(tmp_path):
    made = network("plain")
    edits = (
        ChannelEdit("body.0.0", "out", tuple(range(0, 32, 2))),
        ChannelEdit("body.0.1", "out", tuple(range(0, 32, 2))),
        ChannelEdit("body.1.0", "in", tuple(range(0, 32, 2))),
        ChannelEdit("body.0.0", "out", (0, 5, 15)),
        ChannelEdit("body.0.1", "out", (0, 5, 15)),
        ChannelEdit("body.1.0", "in", (0, 5, 15)),
    )
    weight = made.module.body[0][0].weight.detach().clone()
    from compress.models.edits import apply_edits

    apply_edits(made.module, edits)
    save_model(made.module, Architecture(made.architecture.builder, edits), tmp_path)
    again = load_model(tmp_path)
    assert torch.equal(again.body[0][0].weight, weight[[0, 10, 30]])
    assert torch.equal(again(ToyData().inputs), made.module.eval()(ToyData().inputs))


def test_a_saved_variant_is_a_model_source(saved):
    made, folder, _ = saved
    again = build(BuilderReference("variant", {"directory": str(folder)})).eval()
    assert torch.equal(again(ToyData().inputs), made.module.eval()(ToyData().inputs))
    assert ModelSource.__dataclass_fields__.keys() == {"Settings", "build"}
