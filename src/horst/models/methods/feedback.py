"""FN, the two-stream feedback network.

De Geest, Tuytelaars 2018, "Modeling Temporal Structure with LSTM for Online Action Detection". One stream interprets
the input, the other follows how it goes on, and reads what the network said of the frame before:

    (a_t, .) = LSTM_A(drop(x_t), .)
    (b_t, .) = LSTM_B([a_t; y_{t-1}], .)         or [a_t; W_p y_{t-1} + b_p]
    y_t = relu(W [a_t; b_t] + b)

x_t is the mean of a map over its places, y_{-1} is zero. The paper feeds back the class scores; a core knows no
classes, so it is y that returns, or a projection of it. What is left open: the sizes on RULSTM's features, for which
RULSTM's are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.errors import ConfigError
from horst.layers import CoreConfig, CoreStep, LSTMCell, Memory, VectorCore
from horst.models.methods.lstm import roll


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackConfig(CoreConfig):
    """Two LSTMs of one width on the mean of each map."""

    name: ClassVar[str] = "feedback"
    title: ClassVar[str] = "FN"

    in_channels: int
    """Channels of the maps whose mean is read."""
    hidden: int = 1024
    """Channels of both LSTMs and of y."""
    projection: int = 0
    """Channels to which y is projected before it is fed back; 0: it is fed back as it is."""
    dropout: float = 0.0
    """Of the input, in training."""

    def __post_init__(self) -> None:
        check_positive(in_channels=self.in_channels, hidden=self.hidden)
        if type(self.projection) is not int or self.projection < 0:
            raise ConfigError(f"projection is {self.projection!r}; it takes a whole number, 0 for none")
        check_dropout(self.dropout)

    @property
    def about(self) -> str:
        back = f"{self.projection} channels of the output" if self.projection else "the output"
        return f"two LSTMs of {self.hidden} channels on the mean of each map, {back} fed back"


class Feedback(VectorCore):
    """Remembers h and c of both streams, and its last output."""

    config: FeedbackConfig

    def __init__(self, config: FeedbackConfig) -> None:
        super().__init__(config)
        hidden = config.hidden
        self.dropout = nn.Dropout(config.dropout)
        self.lstm_a = LSTMCell(config.in_channels, hidden)
        self.project = nn.Linear(hidden, config.projection) if config.projection else nn.Identity()
        self.lstm_b = LSTMCell(hidden + (config.projection or hidden), hidden)
        self.fuse = nn.Linear(2 * hidden, hidden)

    @property
    def channels(self) -> int:
        return self.config.hidden

    def memory_sizes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("h_a", "c_a", "h_b", "c_b", "y"), (self.config.hidden,))

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        a, c = self.lstm_a(self.dropout(x), memory["h_a"], memory["c_a"])
        after = {"h_a": a, "c_a": c, **self._follow(a, memory)}
        return CoreStep({"y": after["y"]}), after

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """As the fold, but the stream to which nothing is fed back runs first."""
        a, c = roll(self.lstm_a, self.dropout(x.mean((-2, -1))), memory["h_a"], memory["c_a"])
        y = []
        for frame in a:
            memory = self._follow(frame, memory)
            y.append(memory["y"])
        return CoreStep({"y": torch.stack(y, 1)[..., None, None]}), {"h_a": a[-1], "c_a": c[-1], **memory}

    def _follow(self, a: Tensor, memory: Memory) -> Memory:
        """The second stream and the output, after stream one said `a` (B, C)."""
        b, c = self.lstm_b(torch.cat([a, self.project(memory["y"])], -1), memory["h_b"], memory["c_b"])
        y = torch.relu(self.fuse(torch.cat([a, b], -1)))
        return {"h_b": b, "c_b": c, "y": y.to(memory["y"].dtype)}  # a state stays in its precision under autocast
