"""ConvLSTM, an LSTM whose states are maps and whose products are convolutions, and Conv-TT-LSTM.

ConvLSTM is a stack of layers, each on the (pooled) output of the one before, with zeros as first state:

    [i, f, o, g] = W * [x_t; h_{t-1}] + b
    c_t = s(f) c_{t-1} + s(i) tanh(g)
    h_t = s(o) tanh(c_t)

`*` convolves, s is the sigmoid; y is h of the last layer. With `peepholes`, the gates also see the cell:
i += w_i c_{t-1}, f += w_f c_{t-1}, o += w_o c_t. The paper has a weight for every position of the map; maps can have
any size here, so a peephole has one weight per channel.

The gates of Conv-TT-LSTM read the last N = `steps` states through a chain of convolutions. A full product of several
states would have too many weights, so it is a tensor-train with `ranks` channels between its cores. With the states
oldest first and zero before the first frame, order M and L = N - M + 1, window w_l holds the L states from index l on:

    z_0 = A_0 * w_0 + a_0
    z_l = A_l * w_l + a_l + B_{l-1} * z_{l-1} + b_{l-1}       l = 1 .. M-1
    [i, f, o, g] = G * [x_t; z_{M-1}] + b

A_l convolves k x k x L to `ranks` channels, B_l k x k from `ranks` to `ranks`. This is the "fixed window" form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreStep, Memory, register_core
from horst.models.methods.repeated import Convolve, laid_out, repeated
from horst.models.methods.stack import StackConfig, StackedCore, layers, pooled
from horst.models.predictor import PredictorConfig
from horst.models.registry import recognition, register_method
from horst.ops.backend import by_kernels


class CellStack(StackedCore):
    """A stack of cells with the state h and c: (clip, h, c) -> (every h of the clip, h, c)."""

    past: int = 0  # how many h a cell remembers, oldest first, as (B, past, C, H, W); 0: one h without that axis

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


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvLSTMConfig(StackConfig):
    """A stack of ConvLSTM layers."""

    name, title = "conv_lstm", "ConvLSTM"
    peepholes: bool = False  # gates that see the cell, with one weight per channel


class ConvLSTMCell(nn.Module):
    """One layer. The input's part of the gates is computed for a whole clip at once, the rest frame by frame."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, peepholes: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels + channels, 4 * channels, kernel, padding=kernel // 2)
        self.peepholes = nn.Parameter(torch.zeros(3, channels, 1, 1)) if peepholes else None

    def forward(self, x: Tensor, h: Tensor, c: Tensor, *, fused: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """A clip x (B, T, C_in, H, W), h and c (B, C, H, W) before it: every h (B, T, C, H, W), h and c after it."""
        observed, recurrent = split_gates(self.conv, x)
        states = []
        for now in observed:
            h, c = lstm_step(now, recurrent(h), c, self.peepholes, fused=fused)
            states.append(h)
        return stacked(states), h.to(c.dtype), c


@register_core(ConvLSTMConfig)
class ConvLSTM(CellStack):
    """The stack. A layer remembers h and c."""

    config: ConvLSTMConfig

    def __init__(self, config: ConvLSTMConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(ConvLSTMCell(*w, config.kernel, peepholes=config.peepholes) for w in self.widths)
        self.unknown = "peepholes" if config.peepholes else ""


@register_method(
    "conv_lstm",
    title="ConvLSTM",
    task="recognition",
    reference="Shi et al. 2015, Convolutional LSTM Network: A Machine Learning Approach for Precipitation Nowcasting",
    idea="an LSTM of convolutions",
    parameters="3.97 M for 12 layers of video prediction (Su et al. 2020)",
    rows={"early-recognition": "ConvLSTM"},
)
def conv_lstm(size: str) -> PredictorConfig:
    return recognition(size, ConvLSTMConfig(**layers(size, (64, 64, 96))))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvTTLSTMConfig(StackConfig):
    """A stack of Conv-TT-LSTM layers."""

    name, title = "conv_tt_lstm", "Conv-TT-LSTM"
    order: int = 3  # M, the cores of the tensor-train
    steps: int = 3  # N, how many past states it reads; at least the order
    ranks: int = 8  # channels between its cores

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        if self.steps < self.order:
            raise ConfigError(f"steps is {self.steps} and order {self.order}: the order is at most the steps")


class ConvTTLSTMCell(nn.Module):
    """One layer, as `ConvLSTMCell`."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, order: int, steps: int, ranks: int) -> None:
        super().__init__()
        conv = partial(nn.Conv2d, kernel_size=kernel, padding=kernel // 2)
        self.steps = steps
        # k x k x L over maps whose depth is L is a k x k convolution of the L states' channels, the oldest's first
        self.windows = nn.ModuleList(conv((steps - order + 1) * channels, ranks) for _ in range(order))
        self.chain = nn.ModuleList(conv(ranks, ranks) for _ in range(order - 1))
        self.gates = conv(in_channels + ranks, 4 * channels)

    def forward(self, x: Tensor, past: Tensor, c: Tensor, *, fused: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """A clip x (B, T, C_in, H, W), past h (B, N, C, H, W) and c before it: all h (B, T, C, H, W), both after it."""
        observed, recurrent = split_gates(self.gates, x)
        convolutions: Any = (self.windows, self.chain)
        windows, chain = ([repeated(conv.weight, conv.bias) for conv in convs] for convs in convolutions)
        states = list(past.unbind(1))
        for now in observed:
            z = tensor_train(states[-self.steps :], windows, chain)
            h, c = lstm_step(now, recurrent(z), c, fused=fused)
            states.append(h)
        past = torch.stack([state.to(c.dtype) for state in states[-self.steps :]], 1)
        return stacked(states[self.steps :]), past, c


def tensor_train(states: list[Tensor], windows: Sequence[Convolve], chain: Sequence[Convolve]) -> Tensor:
    """z_{M-1} (B, R, H, W), from N states (B, C, H, W), the oldest first."""
    length = len(states) - len(windows) + 1
    read = [states[i] if length == 1 else torch.cat(states[i : i + length], 1) for i in range(len(windows))]
    z = windows[0](read[0])
    for window, link, seen in zip(windows[1:], chain, read[1:], strict=True):
        z = window(seen) + link(z)
    return z


@register_core(ConvTTLSTMConfig)
class ConvTTLSTM(CellStack):
    """The stack. A layer remembers its last N h, the oldest first, and c."""

    config: ConvTTLSTMConfig

    def __init__(self, config: ConvTTLSTMConfig) -> None:
        super().__init__(config)
        self.past = config.steps
        cell = partial(ConvTTLSTMCell, kernel=config.kernel, order=config.order, steps=config.steps, ranks=config.ranks)
        self.layers = nn.ModuleList(cell(*w) for w in self.widths)


@register_method(
    "conv_tt_lstm",
    title="Conv-TT-LSTM",
    task="recognition",
    reference="Su et al. 2020, Convolutional Tensor-Train LSTM for Spatio-temporal Learning",
    idea="several states through a tensor-train",
    parameters="2.69 M for 12 layers of video prediction (Su et al. 2020)",
    rows={"early-recognition": "Conv-TT-LSTM (retrained)"},
)
def conv_tt_lstm(size: str) -> PredictorConfig:
    return recognition(size, ConvTTLSTMConfig(**layers(size, (96, 96, 128))))
