from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from export.errors import ConversionError
from export.layout import file_input, torch_shape
from export.module import GlobalMeans, Interface, check_contract, load_module, reference_outputs
from export.request import ModuleSource
from tests.export.conftest import make_contract, make_samples
from tests.export.networks import CLASSES, SIZE, tiny

_pool = nn.functional.adaptive_avg_pool2d


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("tests.export.networks:no_module", r"gave str, expected a torch\.nn\.Module"),
        ("tests.export.networks:nowhere", r"no factory tests\.export\.networks:nowhere, expected `module:function`"),
        ("no_such_package:build", "no factory no_such_package:build"),
    ],
)
def test_a_factory_that_gives_no_module_is_named(factory: str, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        load_module(ModuleSource(factory, {}))


def test_a_loaded_module_is_in_evaluation_mode_with_frozen_parameters() -> None:
    module = load_module(ModuleSource("tests.export.networks:tiny", {"width": 4}))
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_the_interface_takes_the_files_layout_and_names_outputs() -> None:
    module, contract = tiny().eval(), make_contract("tflite")
    sample = make_samples(1)[0]
    answer = Interface(module, contract)(input=torch.from_numpy(file_input(contract, sample)))
    assert list(answer) == ["logits"]
    torch.testing.assert_close(answer["logits"], module(torch.from_numpy(sample[None])))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [(2, 3), (-1, -2), [3, 2]])
def test_means_over_height_and_width_are_pooled_to_the_same_numbers(dim: Any, keepdim: bool) -> None:
    values = torch.randn(2, 3, 4, 5)
    with GlobalMeans(), mock.patch.object(nn.functional, "adaptive_avg_pool2d", wraps=_pool) as pool:
        answers = values.mean(dim, keepdim), torch.mean(values, dim=dim, keepdim=keepdim)
    assert pool.call_count == 2
    for answer in answers:
        torch.testing.assert_close(answer, values.mean(dim, keepdim))


def test_other_means_are_left_alone() -> None:
    values = torch.randn(2, 3, 4, 5)
    with GlobalMeans(), mock.patch.object(nn.functional, "adaptive_avg_pool2d", wraps=_pool) as pool:
        answers = values.mean(), values.mean(1), values.mean((1, 2)), values[0].mean((1, 2)), values.mean((2,))
    assert pool.call_count == 0
    expected = values.mean(), values.mean(1), values.mean((1, 2)), values[0].mean((1, 2)), values.mean((2,))
    torch.testing.assert_close(answers, expected)


def test_the_torch_module_takes_nchw_whatever_the_file_takes() -> None:
    assert torch_shape(make_contract("tflite")) == torch_shape(make_contract("onnx")) == (1, 3, SIZE, SIZE)


def test_references_are_the_modules_answers_to_one_sample_at_a_time() -> None:
    module, samples = tiny().eval(), make_samples(3)
    (answers,) = reference_outputs(module, make_contract(), samples)
    assert answers.shape == (3, CLASSES)
    np.testing.assert_allclose(answers, module(torch.from_numpy(samples)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_outputs_of_another_shape_than_the_contracts_are_refused() -> None:
    with pytest.raises(ConversionError, match=r"shapes \[\(1, 3, 12, 12\)\], its contract says \[\(1, 5\)\]"):
        reference_outputs(nn.Identity(), make_contract(), make_samples(1))


class _Dictionary(nn.Module):
    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"logits": inputs}


def test_outputs_that_are_no_tensors_are_refused() -> None:
    with pytest.raises(ConversionError, match="gives a tensor or a tuple of tensors, got dict"):
        reference_outputs(_Dictionary(), make_contract(), make_samples(1))


def test_contracts_that_converters_do_not_take_are_refused(tmp_path: Path) -> None:
    contract = make_contract()
    (spec,) = contract.inputs
    check_contract(contract)
    for inputs, message in [
        ((spec, replace(spec, name="other")), "one input, the contract has 2"),
        ((replace(spec, dtype="uint8"),), "'input' has to be float32, got uint8"),
        ((replace(spec, shape=(4, *spec.shape[1:])),), "files are made for batch 1"),
    ]:
        with pytest.raises(ConversionError, match=message):
            check_contract(replace(contract, inputs=inputs))
