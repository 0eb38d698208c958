"""The parts that cores of stacked convolutional layers share.

Shapes: B batch, T frames, C channels, H x W map.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_type
from horst.errors import ConfigError
from horst.layers import CoreStep, LayersConfig, Memory, RecurrentCore
from horst.models.methods.repeated import Convolve, laid_out, repeated
from horst.ops.backend import BackendChoice, Wanted, by_kernels, choose

WIDE = {"in_channels": 128, "hidden": (128, 256, 512, 512), "stride": (1, 1, 2, 2)}
"""HORST's layers for Something-Something v2. The authors of the other methods publish no sizes for it."""
NARROW = {"in_channels": 64, "stride": (1, 2, 1)}
"""HORST's small layers; each method has as many channels as give it about as many parameters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StackConfig(LayersConfig):
    """The options of a stack of convolutional layers."""

    kernel: int = 3
    """Height and width of the convolutions, odd."""

    def __post_init__(self) -> None:
        LayersConfig.__post_init__(self)
        if self.kernel % 2 == 0:
            raise ConfigError(f"kernel is {self.kernel}; it takes an odd number, so that maps keep their size")


class StackedCore(RecurrentCore):
    """A core of layers over maps. Each layer reads the pooled output of the one before."""

    config: StackConfig
    layers: nn.ModuleList

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.channels = config.hidden[-1]
        self._wanted: Wanted = "auto"

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Height and width in each layer, after its pooling."""
        sizes = []
        for stride in self.config.stride:
            height, width = height // stride, width // stride
            sizes.append((height, width))
        return sizes

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.sizes(height, width)[-1]

    @property
    def widths(self) -> Iterator[tuple[int, int]]:
        """Input and output channels of each layer."""
        return zip((self.config.in_channels, *self.config.hidden[:-1]), self.config.hidden, strict=True)

    def use_backend(self, name: Wanted) -> None:
        """Compute what lies between convolutions by kernels (triton) or in plain PyTorch (reference)."""
        if name == "compiled":
            raise ConfigError(f"the backend compiled is for HORST; {self.config.title} takes auto, reference or triton")
        check_type("backend", name, Wanted)
        self._wanted = name

    def backend(self, device: torch.device) -> BackendChoice:
        """The implementation that runs on a device, and why."""
        chosen = choose(device, self.unknown, self._wanted)
        return replace(chosen, name="reference") if chosen.name == "compiled" else chosen  # which is for HORST

    @property
    def unknown(self) -> str:
        """What in the config has no kernels; empty: nothing."""
        return ""


class CellStack(StackedCore):
    """A stack of cells with the state h and c: (clip, h, c) -> (every h of the clip, h, c)."""

    past: int = 0
    """How many h a cell remembers, oldest first, as (B, past, C, H, W); 0: one h without that axis."""

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        past = (self.past,) if self.past else ()
        for i, (channels, size) in enumerate(zip(self.config.hidden, self.sizes(height, width), strict=True)):
            shapes |= {f"h{i}": (*past, channels, *size), f"c{i}": (channels, *size)}
        return shapes

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """Layer by layer."""
        after, fused = {}, by_kernels(self, x)
        for i, (cell, stride) in enumerate(zip(self.layers, self.config.stride, strict=True)):
            h, c = memory[f"h{i}"], memory[f"c{i}"]
            x, after[f"h{i}"], after[f"c{i}"] = cell(pooled(x, stride), h, c, fused=fused)
        return CoreStep({"y": x}), after


def pooled(x: Tensor, stride: int) -> Tensor:
    """Maps (B, T, C, H, W) after max pooling with windows of stride x stride."""
    return F.max_pool2d(x.flatten(0, 1), stride).unflatten(0, x.shape[:2]) if stride > 1 else x


def split_gates(conv: nn.Conv2d, x: Tensor) -> tuple[tuple[Tensor, ...], Convolve]:
    """A convolution of [x; h] in two: its result for each frame of x (B, T, C_in, H, W), and the convolution of h."""
    inputs = x.shape[2]
    observed = F.conv2d(laid_out(x.flatten(0, 1)), conv.weight[:, :inputs], conv.bias, padding=conv.padding)
    return observed.unflatten(0, x.shape[:2]).unbind(1), repeated(conv.weight[:, inputs:], None)


def lstm_step(
    observed: Tensor, recurrent: Tensor, c: Tensor, peepholes: Tensor | None = None, *, fused: bool = False
) -> tuple[Tensor, Tensor]:
    """The next h and c, from the two parts of [i, f, o, g] (B, 4 C, H, W), and c (B, C, H, W).

    `peepholes`: w_i, w_f, w_o (3, C, 1, 1). `fused`: use kernels, which do not support peepholes.
    """
    if fused:
        from horst.ops.fused import lstm as kernels

        return kernels.lstm(observed, recurrent, c)
    i, f, o, g = (observed + recurrent).chunk(4, 1)
    if peepholes is not None:
        i, f = i + peepholes[0] * c, f + peepholes[1] * c
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()  # in the precision of c, even if autocast computes the gates
    if peepholes is not None:
        o = o + peepholes[2] * c
    return o.sigmoid() * c.tanh(), c


def stacked(states: Sequence[Tensor]) -> Tensor:
    """Maps (B, C, H, W) of T frames as (B, T, C, H, W), in the same memory layout."""
    if states[0].is_cuda:
        return torch.stack([h.permute(0, 2, 3, 1) for h in states], 1).permute(0, 1, 4, 2, 3)
    return torch.stack(list(states), 1)
