"""A network with fake quantization where the INT8 kernels round, and its way back to the network it was made from."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase

from compress.errors import StageError
from compress.quantization.fake import (
    FakeQuantize,
    Phase,
    QuantizedConv2d,
    QuantizedLinear,
    WeightQuantizer,
)
from export.fold import Fold, find_folds, fold
from export.points import NotTraceableError, Traced, find_points
from export.request import ActivationScale, LearnedQuantization, WeightScale

QUANTIZERS = "quantizers"


class QuantizedNetwork(fx.GraphModule):
    """Layers have the paths that they have in the network itself. Normalizations left unfolded keep their statistics:
    in the file they are constants."""

    def train(self, mode: bool = True) -> QuantizedNetwork:
        super().train(mode)
        for layer in self.modules():
            if isinstance(layer, _NormBase):
                layer.training = False
        return self

    def set_phase(self, phase: Phase) -> None:
        for layer in self.modules():
            if isinstance(layer, FakeQuantize):
                layer.phase = phase


def quantized(
    module: nn.Module, sample: Tensor, *, levels: int, steps: int
) -> tuple[QuantizedNetwork, tuple[Fold, ...]]:
    """A trainable copy with fake quantization, its phase `off`, and the normalizations that were folded into layers.

    `sample` (1, C, H, W); `levels`: largest integer of a weight; `steps`: forward passes in training after which
    ranges are frozen. Raises StageError when the network's code depends on data.
    """
    module = module.eval()
    folds = find_folds(module)
    try:
        traced = find_points(fold(module, folds), sample)
    except NotTraceableError as error:
        raise StageError(f"the network cannot be traced for quantization: {error}") from error
    graph = traced.graph
    quantizers = _quantizers(traced, steps)
    _replace_layers(traced, quantizers, levels)
    _keep_dropout(graph)
    for name, quantizer in quantizers.items():
        graph.add_submodule(f"{QUANTIZERS}.{name}", quantizer)
        node = next(node for node in graph.graph.nodes if node.name == name)
        with graph.graph.inserting_after(node):
            inserted = graph.graph.call_module(f"{QUANTIZERS}.{name}", (node,))
        node.replace_all_uses_with(inserted, delete_user_cb=lambda user, own=inserted: user is not own)
    network = QuantizedNetwork(graph, graph.graph)
    return network.requires_grad_(True).eval(), folds


def learned(network: QuantizedNetwork, levels: int) -> LearnedQuantization:
    """Every scale that the network has learned, in the order of the graph."""
    activations, weights = [], []
    for path, layer in network.named_modules():
        if isinstance(layer, FakeQuantize):
            scale, zero_point = layer.scale_and_zero_point()
            activations.append(ActivationScale(path.removeprefix(f"{QUANTIZERS}."), float(scale), int(zero_point)))
        elif isinstance(layer, QuantizedConv2d | QuantizedLinear):
            scales = layer.quantizer.scales(layer.weight, layer.bias)
            weights.append(WeightScale(path, tuple(scales.tolist())))
    return LearnedQuantization(tuple(activations), tuple(weights), levels)


def write_back(network: QuantizedNetwork, module: nn.Module, folds: tuple[Fold, ...]) -> None:
    """Puts the trained weights into the network they came from, in place, so that folding it gives them bit for bit.

    A normalization that was folded becomes neutral: mean 0, variance 1 with its epsilon, weight 1; its bias is the
    trained one. Its own settings stay as they were.
    """
    before = module.state_dict()
    folded = {step.layer: step.normalization for step in folds}
    changed: dict[str, Tensor] = {}
    for name, tensor in network.state_dict().items():
        path, _, kind = name.rpartition(".")
        if path in folded and kind == "bias":
            changed |= _neutral(module.get_submodule(folded[path]), folded[path], tensor.detach().cpu())
            if name in before:
                changed[name] = torch.zeros_like(before[name])
        elif name in before:
            changed[name] = tensor.detach().cpu()
    module.load_state_dict(changed, strict=False)  # what is not traced stays as it was


def _neutral(layer: Any, path: str, bias: Tensor) -> dict[str, Tensor]:
    """The state of a normalization that adds `bias` and does nothing else."""
    one = torch.ones_like(layer.running_var)
    variance = one - layer.eps
    variance = torch.where(variance + layer.eps == 1, variance, torch.nextafter(variance, one))
    if not bool((variance + layer.eps == 1).all()):
        raise StageError(f"no variance makes the normalization '{path}' with epsilon {layer.eps} neutral")
    statistics = {f"{path}.running_var": variance, f"{path}.running_mean": torch.zeros_like(one)}
    if not layer.affine:
        return statistics | {f"{path}.running_mean": -bias}
    return statistics | {f"{path}.weight": one, f"{path}.bias": bias}


def _quantizers(traced: Traced, steps: int) -> dict[str, FakeQuantize]:
    made = {point.name: FakeQuantize(point.observed, point.fixed, steps) for point in traced.points}
    for point in traced.points:
        if point.group != point.name:
            first = made[point.group].group
            first.append(made[point.name])
            made[point.name].group = first
    return made


def _replace_layers(traced: Traced, quantizers: dict[str, FakeQuantize], levels: int) -> None:
    graph = traced.graph
    calls = Counter(str(node.target) for node in graph.graph.nodes if node.op == "call_module")
    for node in graph.graph.nodes:
        if node.op != "call_module" or not node.all_input_nodes:
            continue
        path = str(node.target)
        layer = graph.get_submodule(path)
        point = quantizers.get(traced.reads.get(node.all_input_nodes[0].name, ""))
        if point is None:
            continue
        quantizer = WeightQuantizer(point if calls[path] == 1 else None, levels, point)
        made: nn.Module
        if type(layer) is nn.Conv2d:
            made = QuantizedConv2d(layer, quantizer)
        elif type(layer) is nn.Linear:
            made = QuantizedLinear(layer, quantizer)
        else:
            continue
        parent, _, name = path.rpartition(".")
        setattr(graph.get_submodule(parent), name, made.train(layer.training))


def _keep_dropout(graph: fx.GraphModule) -> None:
    """A dropout that is written as a function would be traced as it is in evaluation mode: off for good."""
    for index, node in enumerate(list(graph.graph.nodes)):
        if node.op != "call_function" or node.target is not F.dropout:
            continue
        chance = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
        path = f"dropout_{index}"
        graph.add_submodule(path, nn.Dropout(float(chance)))
        with graph.graph.inserting_before(node):
            node.replace_all_uses_with(graph.graph.call_module(path, (node.args[0],)))
        graph.graph.erase_node(node)
