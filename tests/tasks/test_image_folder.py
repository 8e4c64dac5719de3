import numpy as np
import pytest
from pydantic import ValidationError

from compress.errors import DataError
from compress.tasks.image_classification import index_cache
from compress.tasks.image_classification.sources import image_folder
from compress.tasks.image_classification.sources.image_folder import ImageFolderSettings
from compress.tasks.image_classification.task import TASK
from tests.tasks.images import members, picture, write_folder


@pytest.fixture(autouse=True)
def at_rest(monkeypatch):
    monkeypatch.setattr(index_cache, "_AT_REST_NS", -1)


def settings(root=None, **changes):
    values = {"calibration": 6, **({"root": root} if root else {})}
    return ImageFolderSettings.model_validate({**values, **changes})


def test_class_folders_become_labels_and_splits_are_cut(tmp_path):
    data = TASK.prepare(settings(write_folder(tmp_path / "data", members(60))), 0, tmp_path / "cache")
    assert data.labels == ("cat", "dog", "owl")
    assert {split: data.info(split).count for split in ("train", "validation", "calibration", "test")} == {
        "train": 36,
        "validation": 6,
        "calibration": 6,
        "test": 12,
    }


def test_split_folders_are_taken_as_they_are(tmp_path):
    root = write_folder(tmp_path / "data", members(60, "train") + members(9, "val", 100) + members(12, "test", 200))
    data = TASK.prepare(settings(root), 0, tmp_path / "cache")
    assert (data.info("validation").count, data.info("test").count, data.info("train").count) == (9, 12, 54)


def test_explicit_folders_of_splits_are_the_same_data_as_one_root(tmp_path):
    files = members(60, "train") + members(12, "test", 200)
    one = TASK.prepare(settings(write_folder(tmp_path / "one", files)), 0, tmp_path / "cache")
    folders = {"train": str(tmp_path / "one" / "train"), "test": str(tmp_path / "one" / "test")}
    two = TASK.prepare(settings(folders=folders), 0, tmp_path / "cache")
    assert one.digest == two.digest


def test_the_digest_does_not_depend_on_where_the_folder_lies(tmp_path):
    digests = {
        TASK.prepare(settings(write_folder(tmp_path / name, members(60))), 0, tmp_path / "cache").digest
        for name in ("here", "there")
    }
    assert len(digests) == 1


def test_only_changed_files_are_read_again(tmp_path, monkeypatch):
    root = write_folder(tmp_path / "data", members(60))
    first = TASK.prepare(settings(root), 0, tmp_path / "cache")
    write_folder(root, [("cat/0000.png", members(1, start=999)[0][1])])
    seen, original = [], image_folder._read
    monkeypatch.setattr(image_folder, "_read", lambda path: seen.append(path.name) or original(path))
    second = TASK.prepare(settings(root), 0, tmp_path / "cache")
    assert seen == ["0000.png"]
    assert first.digest != second.digest


def test_images_are_decoded_as_they_are_asked_for(tmp_path):
    images = settings(write_folder(tmp_path / "data", members(6))).open(tmp_path / "cache")
    index = [record.name for record in images.records].index("dog/0004.png")
    assert np.array_equal(images.read(index), picture(4))


def test_a_corrupt_image_is_skipped_and_named_and_too_many_are_an_error(tmp_path):
    root = write_folder(tmp_path / "data", [*members(60), ("cat/bad.jpg", b"\xff\xd8\xff\xe0 no more")])
    data = TASK.prepare(settings(root, max_skipped="2%"), 0, tmp_path / "cache")
    (name,) = data.info("train").skipped
    assert name.startswith("cat/bad.jpg (")
    with pytest.raises(DataError, match=r"1 of 61 images .* max_skipped = 1.00%: cat/bad.jpg"):
        TASK.prepare(settings(root), 0, tmp_path / "cache")


def test_a_missing_or_empty_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist"):
        TASK.prepare(settings(tmp_path / "nowhere"), 0, tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no class folders in"):
        TASK.prepare(settings(tmp_path / "empty"), 0, tmp_path / "cache")
    (tmp_path / "empty" / "cat").mkdir()
    with pytest.raises(DataError, match="no images in"):
        TASK.prepare(settings(tmp_path / "empty"), 0, tmp_path / "cache")


def test_an_empty_test_folder_is_an_error(tmp_path):
    root = write_folder(tmp_path / "data", members(60, "train"))
    (root / "test").mkdir()
    with pytest.raises(DataError, match=r"no images in .*test"):
        TASK.prepare(settings(root), 0, tmp_path / "cache")


def test_a_folder_beside_train_that_is_no_split_is_an_error(tmp_path):
    root = write_folder(tmp_path / "data", members(60, "train") + members(6, "tset"))
    with pytest.raises(DataError, match="tset stands beside `train` but is no split"):
        TASK.prepare(settings(root), 0, tmp_path / "cache")


def test_root_and_folders_exclude_each_other(tmp_path):
    with pytest.raises(ValidationError, match="give either `root` or `folders`"):
        settings(tmp_path, folders={"train": str(tmp_path)})
    with pytest.raises(ValidationError, match="give either `root` or `folders`"):
        settings()


def test_links_are_followed_and_circles_are_not(tmp_path):
    root = write_folder(tmp_path / "data", members(60))
    elsewhere = write_folder(tmp_path / "elsewhere", [("more.png", members(1, start=77)[0][1])])
    (root / "cat" / "circle").symlink_to(root)
    (root / "cat" / "linked").symlink_to(elsewhere)
    names = [record.name for record in settings(root).open(tmp_path / "cache").records]
    assert len(names) == 61
    assert "cat/linked/more.png" in names
