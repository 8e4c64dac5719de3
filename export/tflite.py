"""Torch module to TFLite: a float file with fixed shapes, named as the contract says, the same bytes every time."""

from __future__ import annotations

import logging
import warnings

import torch
from torch import nn

from edge_runtime.contract import Contract
from export import diagnose
from export.module import Interface


def convert_float(module: nn.Module, contract: Contract) -> bytes:
    """The float32 file. For a contract in NHWC the axes are moved in front of the network, where they vanish.

    Raises ConversionError that names the operator and the module's path when an operator has no TFLite form.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litert_torch

    logging.getLogger().setLevel(logging.ERROR)
    wrapper = Interface(module, contract).eval()
    sample = {contract.inputs[0].name: torch.zeros(contract.inputs[0].shape)}
    model = diagnose.explained(
        lambda: litert_torch.convert(wrapper, sample_kwargs=sample),
        wrapper,
        lambda: diagnose.trace(wrapper, sample),
    )
    return bytes(model.model_content())
