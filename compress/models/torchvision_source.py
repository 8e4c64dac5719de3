"""Networks of torchvision, without weights, adapted to the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from torchvision import models

from compress.errors import StageError

_OPTIONS: dict[str, dict[str, Any]] = {
    # The auxiliary heads give a tuple while training, and are gone at inference.
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False},
}
_STEM_LAYERS = 4
"""Convolution, normalization, activation and max pooling: how far into a network the stem reaches."""


def build_torchvision(arguments: Mapping[str, Any]) -> nn.Module:
    """`name` and `stem`, and from the task `num_classes`, `in_channels`, `image_size` (height, width or one number)."""
    name = arguments["name"]
    options = dict(_OPTIONS.get(name, {}))
    if "num_classes" in arguments:
        options["num_classes"] = arguments["num_classes"]
    if "image_size" in arguments:
        options |= _size_options(name, arguments["image_size"])
    module = models.get_model(name, weights=None, **options)
    in_channels = arguments.get("in_channels", 3)
    small = arguments.get("stem") == "small"
    if in_channels != 3 or small:
        _adapt_stem(module, in_channels, small, name)
    return module


def _size_options(name: str, image_size: Any) -> dict[str, Any]:
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    if name.startswith("vit_"):
        if height != width:
            raise StageError(f"{name} takes square images, the data gives {height}x{width}")
        return {"image_size": height}
    return {"input_size": (height, width)} if name.startswith("maxvit") else {}


def _adapt_stem(module: nn.Module, in_channels: int, small: bool, name: str) -> None:
    leaves = [(path, layer) for path, layer in module.named_modules() if not list(layer.children())]
    path, first = next((path, layer) for path, layer in leaves if isinstance(layer, nn.Conv2d))
    if small and max(first.stride) == 1:
        raise StageError(f"stem: small has nothing to change in {name}: its first convolution has stride 1")
    if small and max(first.kernel_size) == max(first.stride):
        raise StageError(f"stem: small does not fit {name}: its first convolution cuts the image into patches")
    shape: dict[str, Any] = {name: getattr(first, name) for name in ("kernel_size", "stride", "padding")}
    if small:
        shape = {"kernel_size": 3, "stride": 1, "padding": 1}
    convolution = nn.Conv2d(in_channels, first.out_channels, bias=first.bias is not None, **shape)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)
    _replace(module, path, convolution)
    if small:
        position = [path for path, _ in leaves].index(path)
        for path, layer in leaves[position : position + _STEM_LAYERS]:
            if isinstance(layer, nn.MaxPool2d):
                _replace(module, path, nn.Identity())


def _replace(module: nn.Module, path: str, layer: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, layer)
