from __future__ import annotations

from pathlib import Path

import pytest

from compress.measurement.machine import describe, processor


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n", "Some CPU @ 2.00GHz"),
        ("processor\t: 0\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0b\n", "0xd0b"),
    ],
)
def test_the_processor_has_the_name_that_the_system_gives_it(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert processor(tmp_path / "cpuinfo") == name


def test_without_a_name_the_architecture_stands_in(tmp_path: Path) -> None:
    assert processor(tmp_path / "missing")


def test_the_load_goes_with_the_measurement() -> None:
    machine = describe(0.5, None)
    assert (machine.load_before, machine.load_after) == (0.5, None)
    assert machine.cores >= 1
