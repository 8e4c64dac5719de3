from __future__ import annotations

import pytest

from compress.report import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-0.45, "−45.0 %"), (0.1234, "+12.3 %"), (0.0, "0.0 %"), (-0.0001, "0.0 %")],
)
def test_changes_carry_their_sign_except_a_rounded_zero(value: float, shown: str) -> None:
    assert text.signed(value) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(512, "512 B"), (2048, "2.00 KiB"), (4_404_019, "4.20 MiB"), (3 * 2**30, "3.00 GiB")]
)
def test_sizes_use_the_largest_unit_that_leaves_at_least_one(count: int, shown: str) -> None:
    assert text.size(count) == shown


def test_points_are_hundredths_of_the_metric() -> None:
    assert text.points(-0.008) == "−0.80"


@pytest.mark.parametrize(("seconds", "shown"), [(3.21, "3.2 s"), (200, "3 min 20 s")])
def test_durations_read_as_people_say_them(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown
