import numpy as np
import pytest
import torch
from pydantic import ValidationError

from compress.errors import DataError
from compress.tasks.image_classification.settings import IMAGENET_MEAN, ImageDataSettings
from compress.tasks.image_classification.sources.image_folder import ImageFolderSettings
from compress.tasks.image_classification.task import TASK
from edge_runtime.preprocess import preprocess
from tests.tasks.images import encoded, members, picture, write_folder

SPLITS = ("train", "validation", "calibration", "test")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"), members(90))


@pytest.fixture
def prepare(root, tmp_path):
    def call(seed=0, **changes):
        values = {"root": root, "calibration": 6, **changes}
        return TASK.prepare(ImageFolderSettings.model_validate(values), seed, tmp_path)

    return call


def flat(batches):
    return [sample for batch in ids(batches) for sample in batch]


def ids(batches):
    return [batch.sample_ids.tolist() for batch in batches]


def test_an_epoch_is_a_shuffle_fixed_by_seed_and_epoch(prepare):
    data = prepare()
    first = ids(data.training_batches(8, 1, 2))
    assert first == ids(data.training_batches(8, 1, 2))
    assert first != ids(data.training_batches(8, 1, 3))
    assert first != ids(data.training_batches(8, 2, 2))
    assert {len(batch) for batch in first} == {8}
    seen = [sample for batch in first for sample in batch]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(flat(data.evaluation_batches("train", 100)))


def test_batches_can_be_skipped_without_being_read(prepare):
    data = prepare(cache="none", augmentation={"flip": True, "crop": 2})
    reads, original = [], data.pixels.collection.read
    object.__setattr__(data.pixels.collection, "read", lambda index: reads.append(index) or original(index))
    whole = list(data.training_batches(8, 0, 0))
    reads.clear()
    rest = list(data.training_batches(8, 0, 0, start=4))
    assert len(reads) == 8 * (len(whole) - 4)
    for batch, expected in zip(rest, whole[4:], strict=True):
        assert torch.equal(batch.inputs, expected.inputs)
        assert np.array_equal(batch.augmentation_ids, expected.augmentation_ids)


def test_a_train_split_smaller_than_a_batch_is_one_batch(prepare):
    assert [len(batch) for batch in ids(prepare().training_batches(1000, 0, 0))] == [prepare().info("train").count]


def test_splits_are_disjoint_and_complete(prepare):
    data = prepare()
    seen = [set(flat(data.evaluation_batches(split, 7))) for split in SPLITS]
    assert sum(len(split) for split in seen) == 90 == len(set.union(*seen))


def test_what_the_network_sees_is_what_the_edge_runtime_computes(prepare):
    data = prepare(image_size=6, resize="stretch")
    batch = next(iter(data.evaluation_batches("test", 4)))
    for sample_id, inputs in zip(batch.sample_ids, batch.inputs, strict=True):
        record = data.pixels.collection.records[data.positions[sample_id]]
        expected = preprocess(picture(int(record.name[-8:-4])), TASK.contract(data).inputs[0].preprocess)
        assert np.array_equal(inputs.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("cache", ["memory", "none"])
def test_keeping_images_in_memory_changes_nothing(prepare, cache):
    options = {"image_size": 6, "augmentation": {"flip": True, "crop": 1}}
    reference = list(prepare(**options).training_batches(16, 0, 0))
    for _ in range(2):
        for batch, expected in zip(prepare(cache=cache, **options).training_batches(16, 0, 0), reference, strict=True):
            assert torch.equal(batch.inputs, expected.inputs)
            assert torch.equal(batch.targets, expected.targets)


def test_images_are_decoded_once_when_they_are_kept(prepare):
    data = prepare(cache="memory")
    reads, original = [], data.pixels.collection.read
    object.__setattr__(data.pixels.collection, "read", lambda index: reads.append(index) or original(index))
    for epoch in range(3):
        list(data.training_batches(8, 0, epoch))
    assert len(reads) == len(set(reads))


def test_evaluation_is_never_augmented(prepare):
    plain, augmented = prepare(), prepare(augmentation={"flip": True, "crop": 2})
    for split in SPLITS:
        for one, two in zip(plain.evaluation_batches(split, 5), augmented.evaluation_batches(split, 5), strict=True):
            assert torch.equal(one.inputs, two.inputs)
            assert not two.augmentation_ids.any()


def test_the_first_samples_of_a_split_are_a_draw_from_all_classes(prepare):
    batch = next(iter(prepare().evaluation_batches("train", 100, limit=20)))
    assert len(batch.targets) == 20
    assert len(set(batch.targets.tolist())) == 3


def test_leaving_an_epoch_early_leaves_no_thread_behind(prepare):
    import threading

    before = threading.active_count()
    for _ in prepare(cache="none").training_batches(8, 0, 0):
        break
    assert threading.active_count() == before


def test_a_restricted_view_refuses_other_splits_and_cannot_be_widened(prepare):
    view = prepare().restricted(("train", "validation", "test")).restricted(("train", "validation"))
    assert list(view.evaluation_batches("validation", 100))
    for refused in (view, view.restricted(("test",))):
        with pytest.raises(DataError, match="the test split must not be read here"):
            refused.evaluation_batches("test", 100)
    with pytest.raises(DataError, match="train split"):
        view.restricted(("validation",)).training_batches(1, 0, 0)
    assert view.info("test").count == 18
    assert TASK.contract(view) == TASK.contract(prepare())


def test_settings_of_preparation_change_the_digest(prepare):
    variants = [
        {},
        {"seed": 1},
        {"image_size": 6},
        {"channels": 1},
        {"augmentation": {"flip": True}},
        {"mean": [0.5], "std": [0.5]},
    ]
    digests = [prepare(**variant).digest for variant in variants]
    assert len(set(digests)) == len(digests)
    assert prepare(cache="none").digest == digests[0]


def test_images_of_different_sizes_need_an_image_size(tmp_path):
    root = write_folder(tmp_path / "data", [*members(60), ("cat/big.png", encoded(picture(1, 9, 9)))])
    settings = {"root": root, "calibration": 6}
    with pytest.raises(DataError, match=r"images differ in size \(8 x 8, 9 x 9, ...\): set `image_size`"):
        TASK.prepare(ImageFolderSettings.model_validate(settings), 0, tmp_path / "cache")
    data = TASK.prepare(ImageFolderSettings.model_validate({**settings, "image_size": 8}), 0, tmp_path / "cache")
    assert data.spec.height == 8


def test_the_order_of_labels_can_be_given(prepare):
    assert prepare(labels=["owl", "cat", "dog"]).labels == ("owl", "cat", "dog")
    with pytest.raises(DataError, match="class 'owl' that `labels` does not name; did you mean 'owls'"):
        prepare(labels=["owls", "cat", "dog"])


def test_the_contract_records_the_preprocessing(prepare):
    contract = TASK.contract(prepare(image_size=6))
    (image,), (logits,) = contract.inputs, contract.outputs
    assert (image.shape, image.layout, image.dtype) == ((1, 3, 6, 6), "NCHW", "float32")
    assert image.preprocess.mean == IMAGENET_MEAN
    assert (logits.shape, logits.decoder) == ((1, 3), "logits")
    assert contract.labels == ("cat", "dog", "owl")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mean": [0.1, 0.2], "std": [1.0, 1.0]}, "mean has 2 values; expected 1 or one for each of 3 channels"),
        ({"mean": [0.1]}, "mean and std belong together"),
        ({"labels": ["a", "a"]}, "labels holds a name twice"),
        ({"channels": 2}, "Input should be 1 or 3"),
        ({"imagesize": 3}, "Extra inputs are not permitted"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        ImageDataSettings.model_validate(values)
