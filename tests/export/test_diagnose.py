from __future__ import annotations

import pytest
import torch

from export import diagnose
from export.errors import ConversionError
from export.module import Interface
from export.onnx import convert_float
from tests.export.conftest import make_contract
from tests.export.networks import SIZE, branching, unsupported


def test_an_operator_without_an_onnx_form_is_named_with_its_module_path() -> None:
    # The exporter breaks `special_i0e` down first and fails over the part, which the program does not hold.
    message = r"operator prims\.bessel_i0e\.default in module 'features\.1\.inner' \(_Special\) is not supported"
    with pytest.raises(ConversionError, match=message) as caught:
        convert_float(unsupported("i0e").eval(), make_contract())
    assert caught.value.kind == "unsupported-operator"


def test_code_that_cannot_be_traced_is_named_with_its_module_path() -> None:
    wrapper = Interface(branching().eval(), make_contract())
    with pytest.raises(
        ConversionError, match=r"cannot trace the code of module 'features\.1' \(_Branching\): "
    ) as caught:
        diagnose.trace(wrapper, {"input": torch.zeros(1, 3, SIZE, SIZE)})
    assert "data-dependent" in str(caught.value)


def test_other_errors_pass_unchanged() -> None:
    wrapper = Interface(torch.nn.Flatten(), make_contract())
    sample = {"input": torch.zeros(1, 3, SIZE, SIZE)}

    def convert() -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        diagnose.explained(convert, wrapper, lambda: diagnose.trace(wrapper, sample))


@pytest.mark.parametrize(
    ("message", "operator"),
    [
        ("Lowering not found: aten.lgamma.default\n\nWhile executing %lgamma", "aten.lgamma.default"),
        ("No ONNX function found for <OpOverload(op='prims.lgamma', overload='default')>.", "prims.lgamma.default"),
        ("No ONNX function found for <OpOverload(op='torchvision::nms', overload='default')>.", None),
        ("disk on fire", None),
    ],
)
def test_operators_are_found_in_the_converters_messages(message: str, operator: str | None) -> None:
    assert diagnose.failed_operator(message) == operator
