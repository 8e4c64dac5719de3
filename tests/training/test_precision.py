import pytest
import torch

from compress.errors import StageError
from compress.training.precision import resolve_precision
from tests.training.nets import network, run


def test_auto_is_fp32_on_a_cpu():
    assert resolve_precision("auto", "cpu").name == "fp32"


def test_fp16_needs_cuda():
    with pytest.raises(StageError, match="precision fp16 needs a CUDA device, this run uses cpu"):
        resolve_precision("fp16", "cpu")


class Overflowing:
    """A scaler whose gradients always overflow."""

    scale = 65536.0

    def get_scale(self):
        return self.scale

    def step(self, optimizer):
        pass

    def update(self):
        self.scale /= 2


def test_steps_that_overflow_are_counted_and_end_in_an_error():
    precision = resolve_precision("fp32", "cpu")
    precision.scaler = Overflowing()
    assert precision.step(None) is False
    assert precision.skipped_steps == 1
    precision.scaler.scale = 2.0**-15
    with pytest.raises(StageError, match="overflow at every loss scale"):
        precision.step(None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_fp16_trains_on_cuda_and_comes_back_to_the_cpu(tmp_path):
    result, model = run(tmp_path, model=network(), device="cuda", changes={"epochs": 6})
    assert result.notes["precision"] == "fp16"  # what `auto` means there
    assert result.validation["accuracy"] > 0.8
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
