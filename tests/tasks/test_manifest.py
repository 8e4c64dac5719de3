import hashlib
import json

from compress.tasks.manifest import Manifest, write_manifest
from compress.tasks.splits import Sample


def manifest(**changes):
    values = {
        "task": "image-classification",
        "seed": 0,
        "labels": ("cat", "dog"),
        "prepared": {"height": 8},
        "samples": (Sample("x/1.jpg", "aa", 0), Sample("x/2.jpg", "bb", 1)),
        "splits": ("train", "test"),
        "skipped": {},
    }
    return Manifest(**{**values, **changes})


def test_a_manifest_is_json_with_a_line_for_each_sample():
    content = json.loads(manifest().to_json())
    assert content["samples"] == [["x/1.jpg", "aa", "cat", "train"], ["x/2.jpg", "bb", "dog", "test"]]
    assert content["labels"] == ["cat", "dog"]


def test_the_digest_is_that_of_the_file(tmp_path):
    path, digest = write_manifest(manifest(), tmp_path / "manifests")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert write_manifest(manifest(), tmp_path / "manifests") == (path, digest)


def test_everything_that_training_sees_changes_the_digest(tmp_path):
    changes = [
        {},
        {"seed": 1},
        {"labels": ("dog", "cat")},
        {"prepared": {"height": 9}},
        {"splits": ("train", "validation")},
        {"samples": (Sample("x/1.jpg", "aa", 0), Sample("x/2.jpg", "cc", 1))},
        {"samples": (Sample("x/1.jpg", "aa", 1), Sample("x/2.jpg", "bb", 1))},
        {"skipped": {"train": ("x/3.jpg (truncated)",)}},
    ]
    assert len({write_manifest(manifest(**change), tmp_path)[1] for change in changes}) == len(changes)


def test_contents_that_two_splits_share_are_counted():
    samples = (Sample("1", "aa", 0), Sample("2", "aa", 0), Sample("3", "bb", 0))
    shared = manifest(samples=samples, splits=("train", "test", "test"))
    assert json.loads(shared.to_json())["duplicates"] == {"test/train": 1}


def test_names_in_any_script_or_encoding_are_kept(tmp_path):
    odd = (Sample("字/ü.jpg", "aa", 0), Sample("bad\udcff.jpg", "bb", 1))
    path, _ = write_manifest(manifest(samples=odd), tmp_path)
    content = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
    assert [row[0] for row in content["samples"]] == ["字/ü.jpg", "bad\udcff.jpg"]
