"""Tiny networks, one for each graph pattern that pruning has to understand; `tests.nets:<function>` in recipes.

All take (N, in_channels, H, W) and give logits (N, num_classes). Names of the patterns follow the test catalogue of
Torch-Pruning.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalization, ReLU; the size stays unless there is a stride."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Net(nn.Module):
    """A stem, a body of `width` channels in and out unless said otherwise, the mean over the image, a classifier."""

    def __init__(self, body: nn.Module, outputs: int, num_classes: int, in_channels: int, width: int) -> None:
        super().__init__()
        self.stem = conv(in_channels, width, stride=2)
        self.body = body
        self.classifier = nn.Linear(outputs, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.classifier(self.body(self.stem(inputs)).mean((2, 3)))


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        return F.relu(inputs + self.inner(inputs))


class Concat(nn.Module):
    """Branches side by side; with `itself`, the first one twice."""

    def __init__(self, *branches: nn.Module, itself: bool = False) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.itself = itself

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = [branch(inputs) for branch in self.branches]
        return torch.cat(outputs + outputs[:1] if self.itself else outputs, 1)


class Chunk(nn.Module):
    """A gated unit: one convolution, its halves multiplied."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = conv(width, 2 * width)
        self.project = conv(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        value, gate = self.expand(inputs).chunk(2, 1)
        return self.project(value * torch.sigmoid(gate))


class ChunkConcat(nn.Module):
    """The halves of one convolution go their own ways and meet in a concatenation (as in YOLO's C2f)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = conv(width, 2 * width, 1)
        self.inner = conv(width, width)
        self.last = conv(3 * width, width, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        left, right = self.first(inputs).chunk(2, 1)
        return self.last(torch.cat([left, right, self.inner(right)], 1))


class FixedSplit(nn.Module):
    """A split at a constant in the code: its producer cannot be cut without changing the code."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.first = conv(width, 2 * width, 1)
        self.left = conv(width, width)
        self.right = conv(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        left, right = torch.split(self.first(inputs), [self.width, self.width], 1)
        return self.left(left) + self.right(right)


class Shuffle(nn.Module):
    """A unit of ShuffleNet V2: half passes through, half is transformed, the halves are interleaved."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.inner = nn.Sequential(conv(half, half, 1), conv(half, half, groups=half), conv(half, half, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        left, right = inputs.chunk(2, 1)
        outputs = torch.cat([left, self.inner(right)], 1)
        batch, channels, height, width = outputs.shape
        return outputs.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape_as(outputs)


class SqueezeExcite(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = conv(width, 2 * width)
        self.reduce = nn.Conv2d(2 * width, width // 2, 1)
        self.expand = nn.Conv2d(width // 2, 2 * width, 1)
        self.outer = conv(2 * width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.inner(inputs)
        scale = torch.sigmoid(self.expand(F.silu(self.reduce(hidden.mean((2, 3), keepdim=True)))))
        return self.outer(hidden * scale)


class LayerScale(nn.Module):
    """A block of ConvNeXt: depthwise, LayerNorm over channels, linear layers, a bare parameter that scales."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 3 * width)
        self.project = nn.Linear(3 * width, width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 0.5))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.norm(self.depthwise(inputs).permute(0, 2, 3, 1))
        return inputs + self.scale * self.project(F.gelu(self.expand(hidden))).permute(0, 3, 1, 2)


class Attention(nn.Module):
    """A transformer's attention and feed-forward over the pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.expand = nn.Linear(width, 4 * width)
        self.project = nn.Linear(4 * width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = inputs.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        tokens = tokens + self.project(F.gelu(self.expand(tokens)))
        return tokens.transpose(1, 2).reshape_as(inputs)


class Twice(nn.Module):
    """One layer used two times."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shared = conv(width, width)
        self.last = conv(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.shared(self.shared(inputs)))


class Tied(nn.Module):
    """Two layers that hold one and the same parameter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.second.weight = self.first.weight
        self.last = conv(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(F.relu(self.second(F.relu(self.first(inputs)))))


class Flat(nn.Module):
    """Convolutions, then a flattened map into linear layers, as in VGG. Takes images of 8x8."""

    def __init__(self, num_classes: int, in_channels: int, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(conv(in_channels, width, stride=2), conv(width, 2 * width, stride=2))
        self.head = nn.Sequential(nn.Linear(2 * width * 4, 4 * width), nn.ReLU(), nn.Linear(4 * width, num_classes))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs).flatten(1))


class Transposed(nn.Module):
    """Up-sampling by transposed convolutions, one of them grouped."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(width, 2 * width, 2, 2)
        self.grouped = nn.ConvTranspose2d(2 * width, width, 3, padding=1, groups=4)
        self.norm = nn.GroupNorm(4, width)
        self.last = conv(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(F.relu(self.norm(self.grouped(F.relu(self.up(inputs))))))


Body = Callable[[int], tuple[nn.Module, int]]


def _net(body: Body) -> Callable[..., nn.Module]:
    def build(num_classes: int = 10, in_channels: int = 3, width: int = 16) -> nn.Module:
        module, outputs = body(width)
        return Net(module, outputs, num_classes, in_channels, width)

    return build


def _residual(width: int) -> tuple[nn.Module, int]:
    inner = [
        nn.Sequential(conv(width, width), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)) for _ in "12"
    ]
    return nn.Sequential(*map(Residual, inner)), width


def _concat_of_concats(width: int) -> tuple[nn.Module, int]:
    inner = Concat(conv(width, width), conv(width, 2 * width))
    return nn.Sequential(Concat(inner, conv(width, width)), nn.BatchNorm2d(4 * width), conv(4 * width, width)), width


plain = _net(lambda width: (nn.Sequential(conv(width, 2 * width), conv(2 * width, width)), width))
residual = _net(_residual)
depthwise = _net(
    lambda width: (
        nn.Sequential(
            conv(width, 4 * width, 1), conv(4 * width, 4 * width, groups=4 * width), conv(4 * width, width, 1)
        ),
        width,
    )
)
grouped = _net(
    lambda width: (
        nn.Sequential(conv(width, 2 * width, 1), conv(2 * width, 2 * width, groups=4), conv(2 * width, width, 1)),
        width,
    )
)
concat = _net(
    lambda width: (nn.Sequential(Concat(conv(width, width), conv(width, 2 * width)), conv(3 * width, width)), width)
)
concat_itself = _net(
    lambda width: (nn.Sequential(Concat(conv(width, width), itself=True), conv(2 * width, width)), width)
)
concat_of_concats = _net(_concat_of_concats)
dense = _net(
    lambda width: (
        nn.Sequential(
            Concat(nn.Identity(), conv(width, width)),
            Concat(nn.Identity(), conv(2 * width, width)),
            conv(3 * width, width),
        ),
        width,
    )
)
chunk = _net(lambda width: (Chunk(width), width))
chunk_concat = _net(lambda width: (ChunkConcat(width), width))
fixed_split = _net(lambda width: (FixedSplit(width), width))
shuffle = _net(lambda width: (nn.Sequential(Shuffle(width), Shuffle(width)), width))
squeeze_excite = _net(lambda width: (SqueezeExcite(width), width))
layer_scale = _net(lambda width: (nn.Sequential(LayerScale(width), LayerScale(width)), width))
attention = _net(lambda width: (Attention(width), width))
shared_layer = _net(lambda width: (Twice(width), width))
tied_weights = _net(lambda width: (Tied(width), width))
transposed = _net(lambda width: (Transposed(width), width))
prelu = _net(
    lambda width: (
        nn.Sequential(nn.Conv2d(width, width, 3), nn.PReLU(width), nn.Conv2d(width, width, 1), nn.PReLU()),
        width,
    )
)


def flatten(num_classes: int = 10, in_channels: int = 3, width: int = 16) -> nn.Module:
    return Flat(num_classes, in_channels, width)


PATTERNS = (
    "plain",
    "residual",
    "depthwise",
    "grouped",
    "concat",
    "concat_itself",
    "concat_of_concats",
    "dense",
    "chunk",
    "chunk_concat",
    "fixed_split",
    "shuffle",
    "squeeze_excite",
    "layer_scale",
    "attention",
    "shared_layer",
    "tied_weights",
    "transposed",
    "prelu",
    "flatten",
)


def trained_like(module: nn.Module, seed: int = 0) -> nn.Module:
    """Draws normalization statistics and scales as training would leave them, so that no channel equals another."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.LayerNorm | nn.GroupNorm) and layer.weight is not None:
            layer.weight.data.uniform_(0.5, 1.5, generator=generator)
            layer.bias.data.normal_(0, 0.2, generator=generator)
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.2, generator=generator)
            layer.running_var.uniform_(0.5, 1.5, generator=generator)
    return module.eval()


def random_code(**_: object) -> str:
    """No network at all: what a builder function must not return."""
    return "not a module"
