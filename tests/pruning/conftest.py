"""Networks with one forward pass behind them, traced once for all tests."""

from __future__ import annotations

import functools

import pytest
import torch

from compress.pruning.graph import trace
from compress.pruning.groups import ChannelGraph
from compress.pruning.trial import proven
from tests import nets


@functools.cache
def inputs() -> torch.Tensor:
    return torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def module(name: str, **arguments: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return nets.trained_like(getattr(nets, name)(**arguments))


@functools.cache
def graph_of(name: str) -> ChannelGraph:
    return trace(module(name), inputs())


@functools.cache
def proven_graph(name: str) -> ChannelGraph:
    return proven(module(name), graph_of(name), inputs(), seed=0)


@pytest.fixture(params=nets.PATTERNS)
def pattern(request) -> str:
    return request.param
