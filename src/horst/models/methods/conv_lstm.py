"""ConvLSTM: an LSTM whose states are maps and whose products are convolutions.

"Convolutional LSTM Network: A Machine Learning Approach for Precipitation Nowcasting", Shi, Chen, Wang, Yeung, Wong,
Woo, 2015. A stack of layers, each on the (pooled) output of the one before, with zeros as first state:

    [i, f, o, g] = W * [x_t; h_{t-1}] + b
    c_t = s(f) c_{t-1} + s(i) tanh(g)
    h_t = s(o) tanh(c_t)

`*` convolves, s is the sigmoid; y is h of the last layer. With `peepholes`, the gates see the cell too:
i += w_i c_{t-1}, f += w_f c_{t-1}, o += w_o c_t. The paper has a weight for every place of the map. Maps may have any
size here, so a peephole has one weight a channel. The networks of early recognition that HORST is compared with have
none; their widths, kernels and strides were not published and are options.

Shapes: B batch, T frames, C channels, H x W map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from horst.config import check_type
from horst.models.methods.stack import CellStack, StackConfig, lstm, split_gates, stacked


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvLSTMConfig(StackConfig):
    """A stack of ConvLSTM layers."""

    name: ClassVar[str] = "conv_lstm"
    title: ClassVar[str] = "ConvLSTM"

    peepholes: bool = False
    """Gates that see the cell, by one weight a channel."""

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        check_type("peepholes", self.peepholes, bool)


class ConvLSTMCell(nn.Module):
    """One layer. What its input says is computed over a whole clip at once, the rest frame by frame."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, peepholes: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels + channels, 4 * channels, kernel, padding=kernel // 2)
        self.peepholes = nn.Parameter(torch.zeros(3, channels, 1, 1)) if peepholes else None

    def forward(self, x: Tensor, h: Tensor, c: Tensor, *, fused: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """A clip x (B, T, C_in, H, W), h and c (B, C, H, W) before it: every h (B, T, C, H, W), h and c after it."""
        observed, recurrent = split_gates(self.conv, x)
        states = []
        for now in observed:
            h, c = lstm(now, recurrent(h), c, self.peepholes, fused=fused)
            states.append(h)
        return stacked(states), h.to(c.dtype), c


class ConvLSTM(CellStack):
    """The stack. A layer remembers h and c."""

    config: ConvLSTMConfig

    def __init__(self, config: ConvLSTMConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(ConvLSTMCell(*w, config.kernel, peepholes=config.peepholes) for w in self.widths)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        layers = enumerate(zip(self.config.hidden, self.sizes(height, width), strict=True))
        return {f"{name}{i}": (channels, *size) for i, (channels, size) in layers for name in "hc"}

    @property
    def unknown(self) -> str:
        return "peepholes" if self.config.peepholes else ""
