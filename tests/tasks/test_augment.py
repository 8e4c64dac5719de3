import numpy as np
import pytest

from compress.tasks.image_classification import augment
from compress.tasks.image_classification.settings import Augmentation
from tests.tasks.images import picture

IDS = np.arange(2000)


def test_draws_depend_on_seed_epoch_and_sample_and_not_on_the_batch():
    settings = Augmentation(flip=True, crop=4)
    whole = augment.augmentation_ids(settings, augment.draw(settings, 3, 5, IDS))
    parts = [augment.augmentation_ids(settings, augment.draw(settings, 3, 5, ids)) for ids in np.split(IDS, 4)]
    assert np.array_equal(whole, np.concatenate(parts))
    for seed, epoch in ((3, 6), (4, 5), (5, 3)):
        assert (augment.augmentation_ids(settings, augment.draw(settings, seed, epoch, IDS)) != whole).mean() > 0.9


def test_every_change_is_about_equally_frequent():
    settings = Augmentation(flip=True, crop=2)
    draws = augment.draw(settings, 0, 0, np.arange(50_000))
    counts = np.bincount(augment.augmentation_ids(settings, draws))
    assert len(counts) == 2 * 5 * 5
    expected = 50_000 / 50
    assert ((counts - expected) ** 2 / expected).sum() < 49 + 5 * np.sqrt(2 * 49)


def test_flip_and_crop_are_independent():
    draws = augment.draw(Augmentation(flip=True, crop=4), 0, 0, np.arange(50_000))
    for values in (draws.down, draws.right):
        assert abs(np.corrcoef(draws.flip, values)[0, 1]) < 0.02
    assert abs(np.corrcoef(draws.down, draws.right)[0, 1]) < 0.02


def test_equal_ids_mean_equal_changes_and_zero_means_none():
    settings = Augmentation(flip=True, crop=3)
    draws = augment.draw(settings, 0, 0, IDS)
    ids = augment.augmentation_ids(settings, draws)
    image = picture(1)
    changed = augment.apply(settings, draws, np.repeat(image[None], len(IDS), axis=0))
    by_id = {}
    for number, result in zip(ids.tolist(), changed, strict=True):
        assert np.array_equal(by_id.setdefault(number, result), result)
    assert np.array_equal(by_id[0], image)
    assert len({result.tobytes() for result in by_id.values()}) == len(by_id)


def test_an_image_is_moved_by_whole_pixels_and_mirrored_afterwards():
    settings = Augmentation(flip=True, crop=2)
    image = picture(7)
    draws = augment.Draws(np.array([False, True]), np.array([1, 1]), np.array([-2, -2]))
    moved, mirrored = augment.apply(settings, draws, np.stack([image, image]))
    expected = np.zeros_like(image)
    expected[1:, :-2] = image[:-1, 2:]
    assert np.array_equal(moved, expected)
    assert np.array_equal(mirrored, expected[:, ::-1])


def test_without_settings_nothing_is_done():
    images = np.stack([picture(0), picture(1)])
    draws = augment.draw(Augmentation(), 0, 0, np.arange(2))
    assert augment.apply(Augmentation(), draws, images) is images
    assert augment.augmentation_ids(Augmentation(), draws).tolist() == [0, 0]


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_cycle_repeats_the_draws(epoch):
    settings = Augmentation(crop=4, cycle=3)
    first, again = (augment.draw(settings, 0, e, IDS) for e in (epoch, epoch + 3))
    assert np.array_equal(first.down, again.down)
    assert np.array_equal(first.right, again.right)
