"""Model sources: what they build, what they are given, what they refuse."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from compress.errors import StageError
from compress.models import builders
from compress.models.architecture import BuilderReference
from compress.models.builders import MODEL_SOURCES, add_import_folder, build, builder_reference
from compress.models.cost import count
from compress.models.torchvision_names import TORCHVISION_MODELS
from compress.recipe.model_reference import ModelReference

SETTINGS = {name: source.Settings for name, source in MODEL_SOURCES.items()}


def reference(value):
    return ModelReference.model_validate(value, context={"model_sources": SETTINGS})


def made(value, **task):
    return build(builder_reference(reference(value), task))


def test_the_names_are_those_of_the_installed_torchvision():
    from torchvision import models

    assert sorted(TORCHVISION_MODELS) == models.list_models(models)


def test_a_misspelt_network_is_answered_with_the_nearest_name():
    with pytest.raises(ValidationError, match="torchvision has no model 'resnet81'; did you mean 'resnet18'"):
        reference({"source": "torchvision", "name": "resnet81"})


def test_torchvision_networks_fit_classes_and_channels():
    net = made({"source": "torchvision", "name": "resnet18"}, num_classes=10, in_channels=1, image_size=28)
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert net.conv1.stride == (2, 2)


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "densenet121", "squeezenet1_1"]
)
def test_the_small_stem_keeps_the_resolution_of_small_images(name):
    def first_map(stem):
        net = made({"source": "torchvision", "name": name, "stem": stem}, num_classes=10, in_channels=3).eval()
        sizes = []
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d):
                layer.register_forward_hook(lambda _, __, output: sizes.append(output.shape[-1]))
        with torch.no_grad():
            assert net(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
        return sizes[0]

    assert first_map("small") == 32
    assert first_map("default") < 32


@pytest.mark.parametrize(("name", "message"), [("vgg11", "has stride 1"), ("vit_b_32", "cuts the image into patches")])
def test_a_small_stem_that_changes_nothing_is_refused(name, message):
    with torch.device("meta"), pytest.raises(StageError, match=message):
        made({"source": "torchvision", "name": name, "stem": "small"}, num_classes=10)


def test_transformers_get_the_size_of_the_images():
    with torch.device("meta"):
        net = made({"source": "torchvision", "name": "vit_b_32"}, num_classes=5, in_channels=3, image_size=64)
        assert net.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 5)


def test_networks_with_auxiliary_heads_come_without_them():
    net = made({"source": "torchvision", "name": "googlenet"}, num_classes=5)
    assert net.train()(torch.zeros(2, 3, 64, 64)).shape == (2, 5)


def test_residual_networks_have_the_layers_of_the_paper():
    net = made({"source": "residual", "blocks": 9})
    convolutions = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3)]
    assert len(convolutions) + 1 == 56
    small = count(made({"source": "residual"}), (1, 3, 32, 32))
    assert 0.27e6 < small.parameters < 0.28e6  # ResNet-20 in table 6: 0.27 million
    assert 40.5e6 < small.macs < 41.5e6


def test_residual_networks_take_widths_and_blocks():
    net = made({"source": "residual", "blocks": [1, 2, 3], "width": 8}, num_classes=4, in_channels=1)
    assert len(net.blocks) == 6
    assert net(torch.zeros(2, 1, 16, 16)).shape == (2, 4)
    with pytest.raises(ValidationError, match="expected one number of blocks, or three"):
        reference({"source": "residual", "blocks": [1, 2]})


def test_a_function_gets_what_it_takes_and_nothing_else():
    net = made("tests.nets:plain", num_classes=4, in_channels=1, image_size=8)
    assert net(torch.zeros(1, 1, 8, 8)).shape == (1, 4)
    wide = made({"source": "module:function", "function": "tests.nets:plain", "arguments": {"width": 24}})
    assert wide.stem[0].out_channels == 24


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("tests.nets:plain", {"wdth": 3}, "takes no argument 'wdth'; did you mean 'width'"),
        ("tests.nets:residul", {}, "has no function 'residul'; did you mean 'residual'"),
        ("tests.nowhere:net", {}, "cannot import 'tests.nowhere' for tests.nowhere:net"),
        ("tests.nets:random_code", {}, "returned str, expected a torch.nn.Module"),
        ("tests.nets:plain", {"width": -1}, "building the network .* failed: RuntimeError: "),
    ],
)
def test_a_function_that_gives_no_network_is_refused(function, arguments, message):
    with pytest.raises(StageError, match=message):
        build(BuilderReference("module:function", {"function": function, "arguments": arguments}))


def test_an_unknown_source_is_answered_with_the_nearest_one():
    with pytest.raises(StageError, match="unknown model source 'torchvison'; did you mean 'torchvision'"):
        build(BuilderReference("torchvison", {"name": "resnet18"}))


def test_functions_beside_the_recipe_are_importable_here_and_in_child_processes(tmp_path, monkeypatch):
    (tmp_path / "net_of_the_user.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(2, 3)\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    add_import_folder(tmp_path)
    assert build(BuilderReference("module:function", {"function": "net_of_the_user:net"})).out_features == 3
    found = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('net_of_the_user').origin)"],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    assert found.stdout.strip() == str(tmp_path / "net_of_the_user.py")


def test_third_parties_add_sources_by_entry_point(monkeypatch):
    class Point:
        name = "theirs"

        @staticmethod
        def load():
            return builders.ModelSource(
                builders.SourceSettings, lambda arguments: nn.Linear(1, arguments["num_classes"])
            )

    monkeypatch.setattr(builders, "entry_points", lambda group: [Point] if group == builders.ENTRY_POINTS else [])
    builders.model_sources.cache_clear()
    try:
        assert build(BuilderReference("theirs", {"num_classes": 5})).out_features == 5
    finally:
        builders.model_sources.cache_clear()


def test_sources_are_validated_without_importing_a_framework():
    code = textwrap.dedent("""
        import sys
        import compress.models.builders, compress.models.network, compress.models.saved, compress.models.edits
        import compress.stages.load, compress.stages.prune, compress.stages.distill
        from compress.recipe.model_reference import ModelReference
        sources = {name: source.Settings for name, source in compress.models.builders.MODEL_SOURCES.items()}
        ModelReference.model_validate({"source": "torchvision", "name": "resnet18"}, context={"model_sources": sources})
        print([name for name in ("torch", "numpy", "torchvision", "torch_pruning") if name in sys.modules])
    """)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
