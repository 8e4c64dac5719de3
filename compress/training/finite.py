"""Where numbers stopped being finite: the step is run once more with an eye on every module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from compress.tasks.protocol import Batch

if TYPE_CHECKING:
    from torch import Tensor, nn


Loss = Callable[["nn.Module", Batch], "Tensor"]


def explain(model: nn.Module, parts: Sequence[Batch], loss: Loss) -> str:
    """The first thing in the order of computation that is not finite: a parameter, the input, a module's output, the
    loss, or the gradient of a module's output. Runs the loss of each part once, with its gradient.
    """
    for name, parameter in model.named_parameters():  # buffers may have been spoiled by this very step
        if not parameter.detach().isfinite().all():
            return f"the parameter {name} was not finite before this step"
    for part in parts:
        if found := _bad_inputs(part) or _first_in_computation(model, part, loss):
            return found
    return "each part of the step is finite when it is repeated alone; their sum, or the penalty, is not"


def _bad_inputs(batch: Batch) -> str:
    import torch

    if not isinstance(batch.inputs, torch.Tensor) or batch.inputs.isfinite().all():
        return ""
    bad = (~batch.inputs.isfinite().flatten(1).all(1)).nonzero().flatten().tolist()
    ids = ", ".join(str(int(batch.sample_ids[index])) for index in bad[:5])
    return f"the inputs of the samples with the ids {ids} are not finite"


def _first_in_computation(model: nn.Module, batch: Batch, loss: Loss) -> str:
    """ "" when all is finite. Containers are left out, so that the innermost module is named."""
    import torch

    outputs: list[str] = []
    gradients: list[str] = []

    def watch(label: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            for tensor in output if isinstance(output, tuple | list) else [output]:
                if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
                    continue
                if not tensor.isfinite().all():
                    outputs.append(label)
                if tensor.requires_grad:
                    tensor.register_hook(lambda grad: None if grad.isfinite().all() else gradients.append(label))

        return hook

    handles = [
        module.register_forward_hook(watch(f"{name} ({type(module).__name__})"))
        for name, module in model.named_modules()
        if name and not any(module.children())
    ]
    try:
        model.zero_grad(set_to_none=True)
        value = loss(model, batch)
        value.backward()
    finally:
        for handle in handles:
            handle.remove()
    if outputs:
        return f"the first output that is not finite is that of {outputs[0]}"
    if not value.isfinite():
        return "every module's output is finite, the loss computed from them is not"
    if gradients:
        return f"the first gradient that is not finite is that of the output of {gradients[0]}"
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return f"the gradient of the parameter {name} is not finite"
    return ""
