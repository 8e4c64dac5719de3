"""The processors that files are made for: channel multiples, INT8 scheme, default engine by format."""

from __future__ import annotations

from dataclasses import dataclass


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
