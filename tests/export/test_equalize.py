"""Cross-layer equalization keeps the function, evens out channels, and gives INT8 its accuracy back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from export.convert import convert
from export.equalize import Pair, equalize, find_pairs
from export.request import ModuleSource
from tests.export.conftest import make_request, make_samples
from tests.export.networks import SIZE, outliers

SAMPLE = torch.zeros(1, 3, SIZE, SIZE)


def test_pairs_are_found_across_what_lets_factors_pass() -> None:
    assert find_pairs(outliers(), SAMPLE) == (
        Pair("first", "depthwise"),
        Pair("depthwise", "second"),
        Pair("second", "classifier"),
    )


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_the_function_stays_and_channels_become_even(factor: float) -> None:
    before = outliers(factor)
    after = equalize(before, find_pairs(before, SAMPLE))
    samples = torch.from_numpy(make_samples(4))
    with torch.no_grad():
        torch.testing.assert_close(after(samples), before(samples), rtol=1e-4, atol=1e-5)
    made = after.first.weight.flatten(1).abs().amax(1)  # type: ignore[union-attr]
    read = after.depthwise.weight.flatten(1).abs().amax(1)  # type: ignore[union-attr]
    torch.testing.assert_close(made, read, rtol=0.05, atol=1e-3)
    assert torch.equal(before.first.weight, outliers(factor).first.weight)  # type: ignore[union-attr]


class Others(nn.Module):
    """Pairs that are none: an activation with a ceiling, a value that is read twice, a channel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Conv2d(3, 3, 1) for _ in range(4))
        self.grouped = nn.Conv2d(4, 4, 1, groups=2)
        self.four = nn.Conv2d(3, 4, 1)

    def forward(self, inputs):
        hidden = self.b(F.relu6(self.a(inputs)))
        hidden = self.c(hidden) + hidden
        return self.grouped(self.four(self.d(F.pixel_shuffle(hidden.repeat(1, 4, 1, 1), 2))))


def test_what_does_not_let_factors_pass_makes_no_pair() -> None:
    assert find_pairs(Others().eval(), SAMPLE) == (Pair("d", "four"),)


def test_int8_of_a_network_with_outlier_channels_gets_its_accuracy_back(tmp_path: Path) -> None:
    decibel = {}
    for even in (False, True):
        request = make_request(tmp_path / str(even), "onnx", "outliers", precisions=("fp32", "int8"), equalize=even)
        source = ModuleSource("tests.export.networks:outliers", {"factor": 300.0})
        answer = convert(type(request)(**{**vars(request), "source": source}), timeout=600)
        assert answer.files[0].parity.max_relative < 1e-3  # the float file: the function stayed
        decibel[even] = answer.files[1].parity.signal_to_noise_db
    assert decibel[True] > decibel[False] + 6
    assert decibel[True] > 20


def test_a_dead_channel_is_left_alone() -> None:
    module = outliers()
    with torch.no_grad():
        module.first.weight[0] = 0  # type: ignore[union-attr]
    after = equalize(module, find_pairs(module, SAMPLE))
    assert all(bool(torch.isfinite(parameter).all()) for parameter in after.parameters())
    assert np.isfinite(after(torch.from_numpy(make_samples(1))).detach().numpy()).all()
