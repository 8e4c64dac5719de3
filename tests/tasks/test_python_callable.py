import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from compress.errors import DataError, StageError
from compress.tasks.image_classification.sources.python_callable import CallableSettings
from compress.tasks.image_classification.task import TASK
from tests.tasks.images import CLASSES, picture

HERE = __name__


class Sequence:
    """What a torchvision data set looks like."""

    classes = CLASSES

    def __init__(self, offset=0):
        self.offset = offset
        self.reads = 0

    def __len__(self):
        return 60

    def __getitem__(self, index):
        self.reads += 1
        return Image.fromarray(picture(index + self.offset)), index % 3


class Drifting(Sequence):
    def __getitem__(self, index):
        self.reads += 1
        return picture(self.reads), 0


def sequence(offset=0):
    return Sequence(offset)


def drifting():
    return Drifting()


def generator(count=60, split=None):
    for index in range(count):
        yield (picture(index, channels=1), CLASSES[index % 3], *([split] if split else []))


def fails():
    yield picture(0), "cat"
    raise OSError("the server is gone")


def floats():
    return [(picture(i).astype(np.float32), "cat") for i in range(60)]


def shapeless():
    return 7


def bare():
    return [picture(i) for i in range(60)]


def settings(function, **changes):
    return CallableSettings.model_validate({"function": f"{HERE}:{function}", "calibration": 6, **changes})


def test_a_generator_is_read_once_and_kept(tmp_path):
    data = TASK.prepare(settings("generator"), 0, tmp_path)
    assert data.labels == CLASSES
    batch = next(iter(data.evaluation_batches("train", 3)))
    assert batch.inputs.shape == (3, 3, 8, 8)


def test_a_sequence_is_read_again_when_an_image_is_needed(tmp_path):
    images = settings("sequence").open(tmp_path)
    assert images.samples.reads == 60
    assert np.array_equal(images.read(7), picture(7))
    assert images.records[7].class_name == "dog"


def test_arguments_are_passed_and_change_the_digest(tmp_path):
    digests = {TASK.prepare(settings("sequence", arguments={"offset": n}), 0, tmp_path).digest for n in (0, 0, 5)}
    assert len(digests) == 2


def test_a_sequence_that_changes_between_reads_is_refused(tmp_path):
    images = settings("drifting").open(tmp_path)
    with pytest.raises(DataError, match="sample 0 differs from what it was"):
        images.read(0)


def test_a_sample_can_name_its_split(tmp_path):
    records = settings("generator", arguments={"count": 3, "split": "val"}).open(tmp_path).records
    assert {record.split for record in records} == {"validation"}
    with pytest.raises(DataError, match=r"sample 0 of .*: unknown split 'holdout'; expected train"):
        settings("generator", arguments={"split": "holdout"}).open(tmp_path)


def test_a_function_that_is_missing_or_fails_is_named(tmp_path):
    with pytest.raises(StageError, match="has no function 'generatr'; did you mean 'generator'"):
        settings("generatr").open(tmp_path)
    with pytest.raises(DataError, match=":fails failed: OSError: the server is gone"):
        settings("fails").open(tmp_path)
    with pytest.raises(DataError, match=r":generator failed: TypeError: .*unexpected keyword"):
        settings("generator", arguments={"cuont": 1}).open(tmp_path)
    with pytest.raises(DataError, match="returned int; expected samples"):
        settings("shapeless").open(tmp_path)


def test_samples_of_the_wrong_form_are_named(tmp_path):
    with pytest.raises(DataError, match=r"sample 0 of .*:bare: expected \(image, label\)"):
        settings("bare").open(tmp_path)


def test_images_of_another_dtype_are_skipped_beyond_the_limit(tmp_path):
    with pytest.raises(DataError, match=r"60 of 60 images .*expected pixels as uint8, got float32"):
        TASK.prepare(settings("floats"), 0, tmp_path)


def test_a_function_is_written_as_module_and_name():
    with pytest.raises(ValidationError, match="function"):
        CallableSettings.model_validate({"function": "module.function"})
