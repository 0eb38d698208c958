"""ConvLSTM: an LSTM whose states are maps and whose products are convolutions.

Shi, Chen, Wang, Yeung, Wong, Woo 2015, "Convolutional LSTM Network: A Machine Learning Approach for Precipitation
Nowcasting". A stack of layers, each on the (pooled) output of the one before, with zeros as first state:

    [i, f, o, g] = W * [x_t; h_{t-1}] + b
    c_t = s(f) c_{t-1} + s(i) tanh(g)
    h_t = s(o) tanh(c_t)

`*` convolves, s is the sigmoid; y is h of the last layer. With `peepholes`, the gates also see the cell:
i += w_i c_{t-1}, f += w_f c_{t-1}, o += w_o c_t. The paper has a weight for every position of the map; maps can have
any size here, so a peephole has one weight per channel.

Shapes: B batch, T frames, C channels, H x W map.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from horst.layers import register_core
from horst.models.methods.stack import NARROW, WIDE, CellStack, StackConfig, lstm_step, split_gates, stacked
from horst.models.predictor import PredictorConfig
from horst.models.registry import recognition, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvLSTMConfig(StackConfig):
    """A stack of ConvLSTM layers."""

    name: ClassVar[str] = "conv_lstm"
    title: ClassVar[str] = "ConvLSTM"

    peepholes: bool = False
    """Gates that see the cell, with one weight per channel."""


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

    @property
    def unknown(self) -> str:
        return "peepholes" if self.config.peepholes else ""


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
    options: dict[str, Any] = {**NARROW, "hidden": (64, 64, 96)} if size == "tiny" else WIDE
    return recognition(size, ConvLSTMConfig(**options))
