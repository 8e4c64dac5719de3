from __future__ import annotations

import pytest

from export.processor import Processor, parse
from export.targets import TARGETS, UnknownTargetError, resolve_target, target_of

_X86 = "processor\t: 0\nflags\t\t: fpu sse4_2 avx avx2 {}\n\nprocessor\t: 1\nflags\t\t: fpu sse4_2 avx avx2 {}\n"
_ARM = "processor\t: 0\nFeatures\t: fp asimd aes {}\nCPU part\t: 0xd0b\n\nprocessor\t: 1\nFeatures\t: fp asimd aes {}\n"


@pytest.mark.parametrize(
    ("cpuinfo", "machine", "expected"),
    [
        (_X86.format("", ""), "x86_64", "x86-avx2"),
        (_X86.format("avx512f avx512_vnni", "avx512f avx512_vnni"), "x86_64", "x86-vnni"),
        (_X86.format("avx_vnni", "avx_vnni"), "x86_64", "x86-vnni"),
        (_ARM.format("asimddp", "asimddp"), "aarch64", "arm-cortex-a76"),
        (_ARM.format("", ""), "aarch64", "arm-cortex-a53"),
        # A mixed processor: a thread may run on the core that lacks the instruction.
        (_ARM.format("asimddp", ""), "aarch64", "arm-cortex-a53"),
        ("", "x86_64", "x86-avx2"),
    ],
)
def test_the_host_is_told_by_its_instructions(cpuinfo: str, machine: str, expected: str) -> None:
    assert target_of(parse(cpuinfo, machine)) == expected


def test_arm_macs_have_the_dot_product_though_they_have_no_cpuinfo() -> None:
    assert target_of(parse("", "arm64", "Darwin")) == "arm-cortex-a76"


def test_host_resolves_to_a_known_target() -> None:
    assert resolve_target("host") in TARGETS.values()


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(UnknownTargetError, match="unknown target 'arm-cortex-a72'; did you mean 'arm-cortex-a76'"):
        resolve_target("arm-cortex-a72")


def test_only_the_processor_whose_products_saturate_gives_up_a_bit_of_the_weights() -> None:
    assert [name for name, target in TARGETS.items() if target.onnx_reduce_range] == ["x86-avx2"]


def test_activations_are_unsigned_on_x86_and_signed_on_arm() -> None:
    assert {(name[:3], target.onnx_activation) for name, target in TARGETS.items()} == {
        ("x86", "uint8"),
        ("arm", "int8"),
    }


def test_features_are_those_that_every_core_has() -> None:
    assert parse(_X86.format("a b", "b c"), "x86_64") == Processor(
        "x86", frozenset(["fpu", "sse4_2", "avx", "avx2", "b"])
    )
