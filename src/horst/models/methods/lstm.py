"""LSTMs on pooled features: LSTM, RL and EL, whose core RU, ED and ImagineRNN continue from, and FN.

With x_t the mean of a map over its positions:

    (h_t, c_t) = LSTM(drop(x_t), h_{t-1}, c_{t-1});   y_t = h_t

Further layers read the h of the one below. RL and EL differ from LSTM by their loss only.

FN, the two-stream feedback network, has a stream that interprets the input and one that models how it continues, from
the last output of the network:

    (a_t, .) = LSTM_A(drop(x_t), .)
    (b_t, .) = LSTM_B([a_t; y_{t-1}], .)         or [a_t; W_p y_{t-1} + b_p]
    y_t = relu(W [a_t; b_t] + b),  y_{-1} = 0

The paper feeds back the class scores. A core has no classes, so y is fed back, or a projection of it.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from horst.layers import CoreConfig, CoreStep, LSTMCell, Memory, VectorCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class LSTMConfig(CoreConfig):
    """Layers of one width on the mean of each map."""

    name, title = "lstm", "LSTM"
    hidden: int = 1024  # channels of h and c in every layer
    layers: int = 1
    dropout: float = 0.0  # of the first layer's input, in training

    @property
    def about(self) -> str:
        return f"{self.layers} LSTM layer{'s' * (self.layers > 1)} of {self.hidden} channels on the mean of each map"


@register_core(LSTMConfig)
class LSTM(VectorCore):
    """y, and for heads that continue from it the last layer's c and the pooled input x."""

    config: LSTMConfig
    gives = ("y", "c", "x")

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        self.channels = config.hidden
        self.dropout = nn.Dropout(config.dropout)
        inputs = [config.in_channels] + [config.hidden] * (config.layers - 1)
        self.layers = nn.ModuleList(LSTMCell(size, config.hidden) for size in inputs)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}{i}": (self.config.hidden,) for i in range(self.config.layers) for name in "hc"}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """Layer by layer."""
        y, after = self.dropout(x), Memory()
        for i, cell in enumerate(self.layers):
            h, c = roll(cell, y, memory[f"h{i}"], memory[f"c{i}"])
            y = torch.stack(h, 1)
            after |= {f"h{i}": h[-1], f"c{i}": c[-1]}
        return CoreStep({"y": y, "c": torch.stack(c, 1), "x": x}), after


def roll(cell: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """An `LSTMCell` over a clip x (B, T, C): h and c after every frame. The inputs' part of gates is one product."""
    hs, cs = [], []
    for given in cell.project(x).unbind(1):
        h, c = cell.recur(given, h, c)
        hs.append(h)
        cs.append(c)
    return hs, cs


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackConfig(CoreConfig):
    """Two LSTMs of one width on the mean of each map."""

    name, title = "feedback", "FN"
    hidden: int = 1024  # channels of both LSTMs and of y
    projection: int = field(default=0, metadata={"zero": True})
    """Channels to which y is projected before it is fed back; 0: no projection."""
    dropout: float = 0.0  # of the input, in training

    @property
    def about(self) -> str:
        back = f"{self.projection} channels of the output" if self.projection else "the output"
        return f"two LSTMs of {self.hidden} channels on the mean of each map, {back} fed back"


@register_core(FeedbackConfig)
class Feedback(VectorCore):
    """Remembers h and c of both streams, and its last output."""

    config: FeedbackConfig

    def __init__(self, config: FeedbackConfig) -> None:
        super().__init__(config)
        self.channels = hidden = config.hidden
        self.dropout = nn.Dropout(config.dropout)
        self.lstm_a = LSTMCell(config.in_channels, hidden)
        self.project = nn.Linear(hidden, config.projection) if config.projection else nn.Identity()
        self.lstm_b = LSTMCell(hidden + (config.projection or hidden), hidden)
        self.fuse = nn.Linear(2 * hidden, hidden)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("h_a", "c_a", "h_b", "c_b", "y"), (self.config.hidden,))

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """The first stream, which gets no feedback, runs over the whole clip first."""
        first, c_a = roll(self.lstm_a, self.dropout(x), memory["h_a"], memory["c_a"])
        b, c, y, outputs = memory["h_b"], memory["c_b"], memory["y"], []
        for a in first:
            b, c = self.lstm_b(torch.cat([a, self.project(y)], -1), b, c)
            y = torch.relu(self.fuse(torch.cat([a, b], -1))).to(y.dtype)  # a state keeps its precision under autocast
            outputs.append(y)
        return CoreStep({"y": torch.stack(outputs, 1)}), {"h_a": a, "c_a": c_a[-1], "h_b": b, "c_b": c, "y": y}


@register_method(
    "lstm",
    title="LSTM",
    task="anticipation",
    reference="Hochreiter, Schmidhuber 1997, Long Short-Term Memory",
    idea="one state through time",
)
@register_method(
    "exponential",
    title="EL",
    task="anticipation",
    reference="Jain et al. 2016, Recurrent Neural Networks for Driver Activity Anticipation via Sensory-Fusion"
    " Architecture",
    idea="late mistakes cost exponentially more",
    rows={"ek55": "EL"},
    loss={"exponential": 1.0},
)
@register_method(
    "ranking",
    title="RL",
    task="anticipation",
    reference="Ma, Sigal, Sclaroff 2016, Learning Activity Progression in LSTMs for Activity Detection and Early"
    " Detection",
    idea="certainty must not decrease",
    rows={"ek55": "RL"},
    loss={"ranking": 6.0},
)
def lstm(size: str, head: str = "action") -> PredictorConfig:
    return anticipation(size, LSTMConfig(**lstm_sizes(size)), head)


@register_method(
    "feedback",
    title="FN",
    task="anticipation",
    reference="De Geest, Tuytelaars 2018, Modeling Temporal Structure with LSTM for Online Action Detection",
    idea="read the last output",
    rows={"ek55": "FN"},
)
def feedback(size: str) -> PredictorConfig:
    return anticipation(size, FeedbackConfig(**lstm_sizes(size)))
