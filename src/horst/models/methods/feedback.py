"""FN, the two-stream feedback network: two LSTMs, of which the second reads the last output of the network.

De Geest, Tuytelaars 2018, "Modeling Temporal Structure with LSTM for Online Action Detection". One stream interprets
the input, the other one models how it continues:

    (a_t, .) = LSTM_A(drop(x_t), .)
    (b_t, .) = LSTM_B([a_t; y_{t-1}], .)         or [a_t; W_p y_{t-1} + b_p]
    y_t = relu(W [a_t; b_t] + b)

x_t is the mean of a map over its positions, y_{-1} is zero. The paper feeds back the class scores. A core has no
classes, so y is fed back, or a projection of it.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from horst.layers import CoreConfig, CoreStep, LSTMCell, Memory, VectorCore, register_core
from horst.models.methods.lstm import roll
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackConfig(CoreConfig):
    """Two LSTMs of one width on the mean of each map."""

    name: ClassVar[str] = "feedback"
    title: ClassVar[str] = "FN"

    hidden: int = 1024
    """Channels of both LSTMs and of y."""
    projection: int = field(default=0, metadata={"zero": True})
    """Channels to which y is projected before it is fed back; 0: no projection."""
    dropout: float = 0.0
    """Of the input, in training."""

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
    "feedback",
    title="FN",
    task="anticipation",
    reference="De Geest, Tuytelaars 2018, Modeling Temporal Structure with LSTM for Online Action Detection",
    idea="read the last output",
    rows={"ek55": "FN"},
)
def feedback(size: str) -> PredictorConfig:
    return anticipation(size, FeedbackConfig(**lstm_sizes(size)))
