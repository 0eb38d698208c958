"""MPNNEL, by the authors of HORST: a recurrence in which the positions of a map exchange messages at every frame.

A position of the map is a vertex v of a graph with the state h_v, zero before the first frame. Three blocks F of
self-attention A among all vertices of the frame (multi-head, pre-norm) pass messages, update states and read them:

    F(x) = s + W_2 gelu(W_1 norm(s)),   s = x + A(norm(x))

    e_v = relu(norm(W x_v));    u_v = norm(W_h [e_v; h_v(t-1)])
    u_v = sigmoid(w_2 relu(W_1 u_v)) u_v         how much of each vertex counts
    m   = F_m(u)                                 messages: the edges are the attention weights
    z   = F_u([m; u]);          h_v = tanh(W_a z_v)
    y   = F_r(W_r h)

The prediction is made of the mean of y over all vertices, which the heads of this package take.

Implemented from the authors' code (github.com/CorcovadoMing/MPNNEL), the form with implicit edges. Left out: its two
forms with learnt edges (MPNNEL-CTP, MPNNEL-TB), whose weights fix the number of vertices: they take maps of one size.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreConfig, CoreStep, Memory, RecurrentCore, register_core
from horst.models.methods.lstr import Attention
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method
from horst.registry import Part

SQUEEZE = 8  # the filter of vertices has hidden / SQUEEZE channels


@dataclass(frozen=True, kw_only=True, slots=True)
class MPNNELConfig(CoreConfig):
    """One layer of messages between the positions of a map."""

    name, title = "mpnnel", "MPNNEL"
    hidden: int = 512  # channels of h and y
    heads: int = 8  # of attention

    def __post_init__(self) -> None:
        CoreConfig.__post_init__(self)
        if self.hidden % self.heads or self.hidden % SQUEEZE:
            raise ConfigError(f"hidden is {self.hidden}; it must be divisible by {self.heads} heads and by {SQUEEZE}")

    @property
    def about(self) -> str:
        return f"MPNNEL, {self.hidden} channels, messages between all positions"


class MessageBlock(nn.Module):
    """F(x) of vertices (B, V, C)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(channels), Attention(channels, heads)
        self.mlp = nn.Sequential(
            nn.LayerNorm(channels), nn.Linear(channels, channels), nn.GELU(), nn.Linear(channels, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        seen = self.norm(x)
        x = x + self.attention(seen, seen)
        return x + self.mlp(x)


@register_core(MPNNELConfig)
class MPNNEL(RecurrentCore):
    """Remembers h of every position."""

    config: MPNNELConfig

    def __init__(self, config: MPNNELConfig) -> None:
        super().__init__(config)
        self.channels = hidden = config.hidden
        self.encode_frame = nn.Sequential(
            nn.Linear(config.in_channels, hidden, bias=False), nn.LayerNorm(hidden), nn.ReLU()
        )
        self.join = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.LayerNorm(hidden))
        self.filter = nn.Sequential(
            nn.Linear(hidden, hidden // SQUEEZE), nn.ReLU(), nn.Linear(hidden // SQUEEZE, 1), nn.Sigmoid()
        )
        self.message = MessageBlock(hidden, config.heads)
        self.update = MessageBlock(2 * hidden, config.heads)
        self.aggregate, self.scale = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, hidden)
        self.readout = MessageBlock(hidden, config.heads)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return {"h": (self.config.hidden, height, width)}

    def advance(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        h = memory["h"]
        vertices, before = (a.flatten(2).mT for a in (x, h))  # (B, V, C)
        u = self.join(torch.cat([self.encode_frame(vertices), before], -1))
        u = self.filter(u) * u
        z = self.update(torch.cat([self.message(u), u], -1))
        after = torch.tanh(self.aggregate(z))
        y = self.readout(self.scale(after))
        after, y = (a.mT.unflatten(2, x.shape[-2:]) for a in (after, y))
        return CoreStep({"y": y}), {"h": after.to(h.dtype).contiguous()}  # a state keeps its precision under autocast


@register_method(
    "mpnnel",
    title="MPNNEL",
    task="anticipation",
    reference="Tai, Fiameni, Lee, See, Lanz 2022, Unified Recurrence Modeling for Video Action Anticipation",
    idea="positions exchange messages",
)
def mpnnel(size: str) -> PredictorConfig:
    """It reads the maps that HORST reads. The width is that of the example in the authors' README."""
    core: dict[str, Any] = {"in_channels": lstm_sizes(size)["in_channels"]}
    if size == "tiny":
        return anticipation(size, MPNNELConfig(**core, hidden=96))
    found = anticipation(size, MPNNELConfig(**core))
    head = Part(name="action", options={**found.head.options, "dropout": 0.0})
    return PredictorConfig(
        backbone=Part(name="bn_inception"), core=found.core, head=head, size=(256, 454), fps=found.fps
    )
