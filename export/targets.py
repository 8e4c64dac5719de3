"""The processors that files are made for: channel multiples, INT8 scheme, default engine by format.

Sources of the figures: XNNPACK's INT8 kernels compute tiles of 8 output channels on AVX2 (`3x8c8`) and on NEON without
dot product (`2x8c8`), of 16 with AVX-512 VNNI (`7x16c8`) and with NEON's dot product (`4x16c4`); ONNX Runtime's blocked
layout (NCHWc) holds 8 channels on AVX2 and 16 on AVX-512. A remainder costs as much as a full tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.nearest import suggestion
from export.processor import Processor, this_processor

HOST = "host"


@dataclass(frozen=True)
class Target:
    """`channel_multiple`: what channel counts are rounded to, so that vector kernels run full."""

    name: str
    channel_multiple: int
    onnx_activation: str
    onnx_weight: str
    onnx_reduce_range: bool
    engines: dict[str, str]
    """Default engine by format, e.g. {"tflite": "litert", "onnx": "onnxruntime"}."""


_ENGINES = {"tflite": "litert", "onnx": "onnxruntime"}

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        # Without VNNI the kernel adds pairs of u8 x s8 products in 16 bits, which saturate; weights of 7 bits cannot.
        # Signed activations have no fused kernels on x86 and run slower than float.
        Target("x86-avx2", 8, "uint8", "int8", True, _ENGINES),
        # VNNI adds four products in 32 bits: nothing saturates, all 8 bits of a weight are used.
        Target("x86-vnni", 16, "uint8", "int8", False, _ENGINES),
        # NEON multiplies signed bytes; pairs of s8 x s8 products fit 16 bits while weights stay within -127..127.
        Target("arm-cortex-a53", 8, "int8", "int8", False, _ENGINES),
        Target("arm-cortex-a76", 16, "int8", "int8", False, _ENGINES),
    )
}


class UnknownTargetError(ValueError):
    """The message names the nearest valid target."""


def resolve_target(name: str) -> Target:
    """The target of that name; `host` is the one nearest to this machine's processor.

    Raises UnknownTargetError for another name.
    """
    if name == HOST:
        return TARGETS[target_of(this_processor())]
    if name not in TARGETS:
        raise UnknownTargetError(f"unknown target '{name}'{suggestion(name, [*TARGETS, HOST])}")
    return TARGETS[name]


def target_of(processor: Processor) -> str:
    """The name of the target whose instructions a processor has; the plainer one when in doubt."""
    if processor.architecture == "arm":
        return "arm-cortex-a76" if "asimddp" in processor.features else "arm-cortex-a53"
    vnni = {"avx512_vnni", "avx_vnni"} & processor.features
    return "x86-vnni" if vnni else "x86-avx2"
