import hashlib
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from compress.errors import DataError
from compress.tasks.splits import Amount, Sample, decide_splits

AMOUNTS = {"validation": 0.1, "calibration": 20, "test": 0.2}
LABELS = ("a", "b", "c", "d")


def samples(count, given=None, start=0):
    return [
        Sample(f"{i:05d}", hashlib.sha256(str(i).encode()).hexdigest(), i % len(LABELS), given)
        for i in range(start, start + count)
    ]


def counts(decided):
    return dict(Counter(decided))


def test_splits_are_cut_in_the_amounts_asked_for():
    assert counts(decide_splits(samples(400), LABELS, AMOUNTS, 0)) == {
        "train": 260,
        "validation": 40,
        "calibration": 20,
        "test": 80,
    }


def test_every_class_has_its_share_of_every_split():
    data = samples(400)
    decided = decide_splits(data, LABELS, AMOUNTS, 0)
    by_class = Counter((split, sample.label) for split, sample in zip(decided, data, strict=True))
    assert {by_class[("test", label)] for label in range(4)} == {20}
    assert {by_class[("calibration", label)] for label in range(4)} == {5}


def test_the_seed_decides_and_the_order_of_the_source_does_not():
    data = samples(200)
    first = dict(zip((s.name for s in data), decide_splits(data, LABELS, AMOUNTS, 0), strict=True))
    turned = data[::-1]
    second = dict(zip((s.name for s in turned), decide_splits(turned, LABELS, AMOUNTS, 0), strict=True))
    assert first == second
    assert first != dict(zip((s.name for s in data), decide_splits(data, LABELS, AMOUNTS, 1), strict=True))


def test_splits_that_the_source_names_stay_as_they_are():
    data = samples(100, "train") + samples(40, "test", start=1000)
    decided = decide_splits(data, LABELS, AMOUNTS, 0)
    assert set(decided[100:]) == {"test"}
    assert counts(decided[:100]) == {"train": 70, "validation": 10, "calibration": 20}


def test_samples_of_equal_content_are_never_cut_apart():
    data = [Sample(f"{i:05d}", f"content {i // 5}", (i // 5) % 4) for i in range(400)]
    decided = decide_splits(data, LABELS, AMOUNTS, 0)
    homes = {}
    for sample, split in zip(data, decided, strict=True):
        homes.setdefault(sample.digest, set()).add(split)
    assert all(len(splits) == 1 for splits in homes.values())
    assert len(set(decided)) == 4


def test_a_rare_class_still_gets_into_calibration():
    data = samples(396) + [Sample(f"rare{i}", f"rare {i}", 4) for i in range(4)]
    decided = decide_splits(data, (*LABELS, "rare"), AMOUNTS, 0)
    assert any(s.label == 4 and split == "calibration" for s, split in zip(data, decided, strict=True))


def test_a_class_absent_from_calibration_is_named_with_what_to_do():
    with pytest.raises(DataError, match=r"calibration split \(2 samples\) has no sample of the classes .*raise `cali"):
        decide_splits(samples(100), LABELS, {**AMOUNTS, "calibration": 2}, 0)


def test_a_class_absent_from_a_given_calibration_split_is_named():
    data = samples(100, "train") + [s for s in samples(40, "calibration", start=1000) if s.label != 2]
    with pytest.raises(DataError, match=r"calibration split \(30 samples\) has no sample of the class c$"):
        decide_splits(data, LABELS, AMOUNTS, 0)


def test_an_empty_split_is_named():
    with pytest.raises(DataError, match="the validation split is empty"):
        decide_splits(samples(100), LABELS, {**AMOUNTS, "validation": 0.001}, 0)
    with pytest.raises(DataError, match="the train split is empty"):
        decide_splits(
            samples(20, "test") + samples(20, "validation", 50) + samples(20, "calibration", 90), LABELS, AMOUNTS, 0
        )


def test_more_than_there_is_cannot_be_cut():
    with pytest.raises(DataError, match="cannot cut a calibration split of 500 samples: only 70 train samples"):
        decide_splits(samples(100), LABELS, {**AMOUNTS, "calibration": 500}, 0)


@given(st.lists(st.integers(0, 3), min_size=60, max_size=200), st.integers(0, 2**64))
@settings(max_examples=30, deadline=None)
def test_amounts_hold_for_any_mixture_of_classes(labels, seed):
    data = [Sample(str(i), hashlib.sha256(str(i).encode()).hexdigest(), label) for i, label in enumerate(labels)]
    present = sorted(set(labels))
    dense = [Sample(s.name, s.digest, present.index(s.label)) for s in data]
    assume(min(Counter(labels).values()) >= 4)  # fewer cannot be in train, calibration and the other two
    decided = decide_splits(dense, [LABELS[i] for i in present], AMOUNTS, seed)
    assert counts(decided)["calibration"] == 20
    assert counts(decided)["test"] == round(0.2 * len(data))
    assert counts(decided)["validation"] == round(0.1 * len(data))


@pytest.mark.parametrize(("written", "amount"), [(256, 256), (0.1, 0.1), ("10%", 0.1), ("0.5 %", 0.005)])
def test_amounts_are_counts_or_shares(written, amount):
    assert TypeAdapter(Amount).validate_python(written) == amount


@pytest.mark.parametrize("written", [0, -3, 1.5, "120%", "many", True, None, 0.0, 1.0])
def test_other_amounts_are_refused_with_the_expected_form(written):
    with pytest.raises(ValidationError, match="expected a number of samples like 256, or a share below 1"):
        TypeAdapter(Amount).validate_python(written)
