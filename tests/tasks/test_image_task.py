import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from compress.tasks.image_classification.sources.image_folder import ImageFolderSettings
from compress.tasks.image_classification.task import TASK
from tests.tasks.images import members, write_folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = write_folder(tmp_path_factory.mktemp("data"), members(60))
    return TASK.prepare(ImageFolderSettings(root=root, calibration=6), 0, tmp_path_factory.mktemp("cache"))


class Constant(nn.Module):
    """Always answers class 1; tells in which mode it ran."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.seen = []

    def forward(self, inputs):
        self.seen.append((self.training, torch.is_inference_mode_enabled()))
        return functional.one_hot(torch.ones(len(inputs), dtype=torch.int64), 3).float()


def test_accuracy_is_the_share_of_right_answers(data):
    info = data.info("validation")
    assert TASK.evaluate(Constant(), data, "validation", 4, "cpu") == {"accuracy": info.per_class["dog"] / info.count}


def test_evaluation_builds_no_graph_and_restores_the_mode_of_every_module(data):
    model = Constant().train()
    model.norm.eval()
    TASK.evaluate(model, data, "validation", 4, "cpu")
    assert set(model.seen) == {(False, True)}
    assert (model.training, model.norm.training) == (True, False)


def test_the_loss_is_the_smoothed_cross_entropy():
    logits, targets = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    spread = functional.one_hot(targets, 3) * 0.9 + 0.1 / 3
    expected = -(spread * logits.log_softmax(1)).sum(1).mean()
    assert torch.allclose(TASK.loss(logits, targets, 0.1), expected)


def test_the_distillation_loss_is_that_of_hinton():
    student, teacher = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    soft = (teacher / 4).softmax(1)
    expected = (soft * (soft.log() - (student / 4).log_softmax(1))).sum(1).mean() * 16
    assert torch.allclose(TASK.distillation_loss(student, teacher, 4.0), expected)
    assert TASK.distillation_loss(teacher, teacher, 4.0).abs() < 1e-12


def test_losses_in_half_precision_are_summed_in_float32():
    logits = torch.randn(4, 3)
    for dtype in (torch.float16, torch.bfloat16):
        assert TASK.loss(logits.to(dtype), torch.zeros(4, dtype=torch.int64), 0.0).dtype == torch.float32


def test_builders_learn_classes_channels_and_size(data):
    assert TASK.model_arguments(data) == {"num_classes": 3, "in_channels": 3, "image_size": 8}


def test_settings_are_read_without_a_framework():
    code = (
        "import sys; from compress.tasks.image_classification.task import TASK; "
        "from compress.tasks.image_classification.sources import DATA_SOURCES; "
        "from compress.stages.train import STAGE; "
        "[s.model_json_schema() for s in DATA_SOURCES.values()]; STAGE.Settings.model_json_schema(); "
        "sys.exit(str({'torch', 'numpy', 'PIL', 'torchvision'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr.strip() == "set()"
