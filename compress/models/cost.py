"""What a network costs: parameters, and multiply-accumulates of one sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Cost:
    """`parameters`: numbers in all parameters, shared ones once, buffers not. `macs`: multiply-accumulates a sample."""

    parameters: int
    macs: int


def count(module: nn.Module, input_shape: Sequence[int]) -> Cost:
    """Runs one forward pass in evaluation mode on zeros of `input_shape` (N, C, H, W), float32.

    Counted are convolutions, linear layers, matrix products and attention (torch.utils.flop_counter, two operations a
    multiply-accumulate), not additions, normalization and activations. The module's mode is restored.
    """
    return Cost(parameters=count_parameters(module), macs=count_macs(module, (example(module, input_shape),)))


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def count_macs(module: nn.Module, inputs: Sequence[Tensor]) -> int:
    """Multiply-accumulates of one sample; `inputs` are the positional arguments, each with the batch first."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # Fused attention hides its matrix products from the counter.
    with evaluating(module), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops() // (2 * inputs[0].shape[0])


def example(module: nn.Module, input_shape: Sequence[int]) -> Tensor:
    """Zeros of `input_shape`, float32, on the module's device."""
    import torch

    parameter = next(module.parameters(), None)
    device = parameter.device if parameter is not None else torch.device("cpu")
    return torch.zeros(tuple(input_shape), dtype=torch.float32, device=device)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without a graph, every submodule's mode restored after it.

    The fused path of nn.MultiheadAttention is off inside, as it is while training: its layers run one by one.
    """
    import torch

    training = {name: child.training for name, child in module.named_modules()}
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for name, child in module.named_modules():
            child.training = training[name]
