"""A GRU on pooled features, the baseline of online action detection.

MiniROAD (An, Kang, Han, Yang, Kim 2023, "MiniROAD: Minimal RNN Framework for Online Action Detection") with x_t the
mean of a map over its positions:

    u_t = drop(relu(norm(W x_t + b)))
    r, z = sigmoid(W_rz u_t + U_rz h_{t-1} + b_rz)
    n   = tanh(W_n u_t + b_n + r (U_n h_{t-1} + b_hn))
    h_t = (1 - z) n + z h_{t-1};   y_t = relu(h_t)

Differences. u and h have one width. MiniROAD trains on short clips and weighs the losses of their frames unevenly: at
inference a state has seen many frames, so the first frames of a clip, whose state is young, count less. Here that is
the choice of a run: clips that learn at their last frames (`loss.steps: last` or `anticipation`), or whole videos,
whose state is as old in training as it is in a stream (`loss.steps: every`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from horst.layers import CoreConfig, CoreStep, Memory, VectorCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class GRUConfig(CoreConfig):
    """One GRU layer on an embedding of the mean of each map."""

    name, title = "gru", "GRU"
    hidden: int = 192  # channels of u and h
    dropout: float = 0.2  # of u, in training

    @property
    def about(self) -> str:
        return f"a GRU of {self.hidden} channels on the mean of each map"


@register_core(GRUConfig)
class GRU(VectorCore):
    """Remembers h."""

    config: GRUConfig

    def __init__(self, config: GRUConfig) -> None:
        super().__init__(config)
        self.channels = hidden = config.hidden
        self.embed = nn.Sequential(
            nn.Linear(config.in_channels, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Dropout(config.dropout)
        )
        self.given, self.past = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return {"h": (self.config.hidden,)}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """The inputs' part of the gates is one product."""
        h, outputs = memory["h"], []
        for given in self.given(self.embed(x)).unbind(1):
            (r, z, n), (r_h, z_h, n_h) = given.chunk(3, -1), self.past(h).chunk(3, -1)
            z = torch.sigmoid(z + z_h)
            n = torch.tanh(n + torch.sigmoid(r + r_h) * n_h)
            h = ((1 - z) * n + z * h).to(h.dtype)  # a state keeps its precision under autocast
            outputs.append(h)
        return CoreStep({"y": torch.relu(torch.stack(outputs, 1))}), {"h": h}


@register_method(
    "gru",
    title="GRU",
    task="anticipation",
    reference="An et al. 2023, MiniROAD: Minimal RNN Framework for Online Action Detection",
    idea="one gated state on an embedding",
)
def gru(size: str) -> PredictorConfig:
    hidden = {} if size == "tiny" else {"hidden": 1024}
    return anticipation(size, GRUConfig(in_channels=lstm_sizes(size)["in_channels"], **hidden))
