"""The torch module to convert: fetched from its factory, checked, and given the interface of its contract."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from edge_runtime.contract import Contract, InputContract, OutputContract
from export.errors import ConversionError
from export.layout import Samples
from export.request import ModuleSource


class GlobalMeans(TorchFunctionMode):
    """While active, means over height and width are computed by global pooling: the same numbers.

    Converters know pooling in either layout; for a mean they move the axes back first, which costs a transpose.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (torch.mean, torch.Tensor.mean):
            pooled = _global_mean(*args, **(kwargs or {}))
            if pooled is not None:
                return pooled
        return func(*args, **(kwargs or {}))


def _global_mean(input: Tensor, dim: Any = None, keepdim: bool = False, **others: Any) -> Tensor | None:
    """The mean by pooling; None when it is another mean. The parameters are those of `torch.mean`."""
    if not isinstance(dim, tuple | list) or input.ndim != 4 or others:
        return None
    if sorted(axis % 4 for axis in dim) != [2, 3]:
        return None
    pooled = nn.functional.adaptive_avg_pool2d(input, 1)
    return pooled if keepdim else torch.flatten(pooled, 1)


class Interface(nn.Module):
    """Names inputs and outputs as the contract does, and moves the axes of inputs that the file takes in NHWC."""

    def __init__(self, module: nn.Module, contract: Contract) -> None:
        super().__init__()
        self.module = module
        self.inputs = [(spec.name, spec.layout) for spec in contract.inputs]
        self.outputs = [spec.name for spec in contract.outputs]

    def forward(self, **named: Tensor) -> dict[str, Tensor]:
        arguments = [
            named[name].permute(0, 3, 1, 2) if layout == "NHWC" else named[name] for name, layout in self.inputs
        ]
        with GlobalMeans():
            outputs = as_tuple(self.module(*arguments))
        return dict(zip(self.outputs, outputs, strict=True))


def load_module(source: ModuleSource) -> nn.Module:
    """Calls the factory. The module comes back in evaluation mode, its parameters frozen.

    Raises ConversionError when the factory cannot be found, or gives something else.
    """
    name, _, function = source.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(name), function)
    except (ImportError, AttributeError) as error:
        raise ConversionError(f"no factory {source.factory}, expected `module:function`: {error}") from error
    module = factory(**source.arguments)
    if not isinstance(module, nn.Module):
        raise ConversionError(f"{source.factory} gave {type(module).__name__}, expected a torch.nn.Module")
    return module.eval().requires_grad_(False)


def check_contract(contract: Contract) -> None:
    """Raises ConversionError for what converters do not take: several inputs, a batch, inputs that are no float32."""
    if len(contract.inputs) != 1:
        raise ConversionError(
            f"expected a model with one input, the contract has {len(contract.inputs)}", "bad-request"
        )
    tensors: list[InputContract | OutputContract] = [*contract.inputs, *contract.outputs]
    for tensor in tensors:
        if tensor.dtype != "float32":
            raise ConversionError(f"contract: '{tensor.name}' has to be float32, got {tensor.dtype}", "bad-request")
    if contract.inputs[0].shape[0] != 1:
        raise ConversionError(
            f"contract: files are made for batch 1, '{contract.inputs[0].name}' has {list(contract.inputs[0].shape)}",
            "bad-request",
        )


def reference_outputs(module: nn.Module, contract: Contract, samples: Samples) -> list[Samples]:
    """What the torch module answers to samples (N, C, H, W), one at a time: one array (N, ...) per output.

    Raises ConversionError when shapes or the number of outputs are not those of the contract.
    """
    answers: list[list[Samples]] = [[] for _ in contract.outputs]
    with torch.no_grad():
        for sample in samples:
            outputs = as_tuple(module(torch.from_numpy(np.array(sample[None]))))
            _check_outputs(contract, outputs)
            for collected, output in zip(answers, outputs, strict=True):
                collected.append(output.numpy()[0])
    return [np.stack(collected) for collected in answers]


def as_tuple(outputs: object) -> tuple[Tensor, ...]:
    """The tensors that a module gave, whether one or several."""
    if isinstance(outputs, Tensor):
        return (outputs,)
    if isinstance(outputs, Sequence) and all(isinstance(output, Tensor) for output in outputs):
        return tuple(cast(Sequence[Tensor], outputs))
    raise ConversionError(f"expected a module that gives a tensor or a tuple of tensors, got {type(outputs).__name__}")


def _check_outputs(contract: Contract, outputs: tuple[Tensor, ...]) -> None:
    shapes = [tuple(output.shape) for output in outputs]
    wanted = [spec.shape for spec in contract.outputs]
    if shapes != wanted:
        raise ConversionError(f"the module gives outputs of shapes {shapes}, its contract says {wanted}", "bad-request")
