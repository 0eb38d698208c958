"""Conv-TT-LSTM: a ConvLSTM whose gates read the last `steps` states through a chain of convolutions.

Su, Byeon, Kossaifi, Huang, Kautz, Anandkumar 2020, "Convolutional Tensor-Train LSTM for Spatio-temporal Learning". A
full product of several states would have too many weights, so it is a tensor-train with `ranks` channels between its
cores. With the N = `steps` last states, oldest first and zero before the first frame, order M and L = N - M + 1, window
w_l holds the L states from index l on:

    z_0 = A_0 * w_0 + a_0
    z_l = A_l * w_l + a_l + B_{l-1} * z_{l-1} + b_{l-1}       l = 1 .. M-1
    [i, f, o, g] = G * [x_t; z_{M-1}] + b
    c_t = s(f) c_{t-1} + s(i) tanh(g)
    h_t = s(o) tanh(c_t)

A_l convolves k x k x L to `ranks` channels, B_l k x k from `ranks` to `ranks`; y is h of the last layer. This is the
"fixed window" form. The defaults of order, steps and ranks are those of the authors' networks for video prediction.

Shapes: B batch, T frames, C channels, H x W map, N states, L states in a window.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import register_core
from horst.models.methods.repeated import Convolve, repeated
from horst.models.methods.stack import NARROW, WIDE, CellStack, StackConfig, lstm_step, split_gates, stacked
from horst.models.predictor import PredictorConfig
from horst.models.registry import recognition, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvTTLSTMConfig(StackConfig):
    """A stack of Conv-TT-LSTM layers."""

    name: ClassVar[str] = "conv_tt_lstm"
    title: ClassVar[str] = "Conv-TT-LSTM"

    order: int = 3
    """M, the cores of the tensor-train."""
    steps: int = 3
    """N, how many past states it reads; at least the order."""
    ranks: int = 8
    """Channels between its cores."""

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        if self.steps < self.order:
            raise ConfigError(f"steps is {self.steps} and order {self.order}: the order is at most the steps")


class ConvTTLSTMCell(nn.Module):
    """One layer. The input's part of the gates is computed for a whole clip at once, the rest frame by frame."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, order: int, steps: int, ranks: int) -> None:
        super().__init__()

        def conv(inputs: int, outputs: int) -> nn.Conv2d:
            return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)

        self.steps = steps
        # k x k x L over maps whose depth is L is a k x k convolution of the L states' channels, the oldest's first
        self.windows = nn.ModuleList(conv((steps - order + 1) * channels, ranks) for _ in range(order))
        self.chain = nn.ModuleList(conv(ranks, ranks) for _ in range(order - 1))
        self.gates = conv(in_channels + ranks, 4 * channels)

    def forward(self, x: Tensor, past: Tensor, c: Tensor, *, fused: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """A clip x (B, T, C_in, H, W), past h (B, N, C, H, W) and c before it: all h (B, T, C, H, W), both after it."""
        observed, recurrent = split_gates(self.gates, x)
        windows, chain = _repeated(self.windows), _repeated(self.chain)
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


def _repeated(convs: Iterable[Any]) -> list[Convolve]:
    return [repeated(conv.weight, conv.bias) for conv in convs]


@register_core(ConvTTLSTMConfig)
class ConvTTLSTM(CellStack):
    """The stack. A layer remembers its last N h, the oldest first, and c."""

    config: ConvTTLSTMConfig

    def __init__(self, config: ConvTTLSTMConfig) -> None:
        super().__init__(config)
        self.past = config.steps
        options = {"order": config.order, "steps": config.steps, "ranks": config.ranks}
        self.layers = nn.ModuleList(ConvTTLSTMCell(*w, config.kernel, **options) for w in self.widths)


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
    options: dict[str, Any] = {**NARROW, "hidden": (96, 96, 128)} if size == "tiny" else WIDE
    return recognition(size, ConvTTLSTMConfig(**options))
