"""A network together with the data that rebuilds it, from a recipe's `model:` or from a variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.errors import StageError
from compress.models.architecture import Architecture
from compress.models.builders import VARIANT_SOURCE, build, builder_reference
from compress.models.cost import count, evaluating, example
from compress.models.saved import load_model, read_architecture, save_model
from compress.models.variant import TorchVariant
from compress.models.weights import load_state, read_weights
from compress.recipe.model_reference import ModelReference
from edge_runtime.contract import Contract

if TYPE_CHECKING:
    from torch import nn


@dataclass
class Network:
    module: nn.Module
    architecture: Architecture


def new_network(
    model: ModelReference, task_arguments: Mapping[str, Any], *, seed: int, weights: Path | None = None
) -> Network:
    """Builds the network of a recipe, with weights drawn from `seed`, or read from `weights` (a file).

    A saved variant comes with its own weights. The caller's random state is left alone. Raises StageError.
    """
    import torch

    reference = builder_reference(model, task_arguments)
    if reference.source == VARIANT_SOURCE:
        folder = Path(reference.arguments["directory"])
        network = Network(load_model(folder).train(), _without_quantization(folder))
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Network(build(reference), Architecture(reference))
    if weights is not None:
        load_state(network.module, read_weights(weights), weights)
    return network


def parent_network(parent: TorchVariant) -> Network:
    """The network of a variant, on the CPU, in evaluation mode; its digest is verified.

    Learned scales stay behind: they belong to the parent's weights alone.
    """
    module = load_model(parent.directory, verify=parent.digest)
    return Network(module, _without_quantization(parent.directory))


def _without_quantization(directory: Path) -> Architecture:
    return replace(read_architecture(directory), quantization=None)


def check_contract(module: nn.Module, contract: Contract) -> None:
    """Runs one forward pass and compares the outputs with the contract. Raises StageError that names the difference."""
    shape, expected = contract.inputs[0].shape, tuple(output.shape for output in contract.outputs)
    try:
        with evaluating(module):
            outputs = module(example(module, shape))
    except Exception as error:  # a network that does not take the data can fail in any way
        raise StageError(
            f"the network does not take inputs of shape {shape}: {type(error).__name__}: {error}"
        ) from error
    found = tuple(tuple(output.shape) for output in (outputs if isinstance(outputs, list | tuple) else [outputs]))
    if found != expected:
        raise StageError(f"the network gives outputs of shape {found}, the data asks for {expected}")


def save_variant(
    network: Network,
    *,
    name: str,
    directory: Path,
    contract: Contract,
    lineage: tuple[str, ...],
    validation: Mapping[str, float],
    notes: Mapping[str, Any] | None = None,
) -> TorchVariant:
    """Counts, checks against the contract, and writes the network as a variant."""
    check_contract(network.module, contract)
    cost = count(network.module, contract.inputs[0].shape)
    digest = save_model(network.module, network.architecture, directory)
    return TorchVariant(
        name=name,
        digest=digest,
        directory=directory,
        contract=contract,
        parameters=cost.parameters,
        macs=cost.macs,
        lineage=lineage,
        validation=dict(validation),
        notes=dict(notes or {}),
    )
