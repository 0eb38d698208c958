"""LSTR: the latest frames attend to each other and to a long memory that learnt queries compress in two stages.

With u_t = drop(relu(norm(W x_t + b))), x_t the mean of a map over its positions, and A(q, m) attention of several
heads, a layer of queries q and a memory m is

    D(q, m):  a = q + drop(A(norm(q), norm(q)));   c = a + drop(A(norm(a), m));   c + drop(W_2 gelu(W_1 norm(c)))

    M_L = u_{t-N-L+1} + p_L, ..., u_{t-N} + p_1        the long memory, L frames, p a learnt vector for each age
    M_S = u_{t-N+1}, ..., u_t                          the short memory, N frames, with vectors of its own
    C_1 = norm(D(Q_1, M_L))                            stage 1, n_0 tokens, Q_1 learnt
    C_2 = norm(D(... D(Q_2, C_1) ..., C_1))            stage 2, n_1 tokens, Q_2 learnt
    y_t = norm(D(... D(M_S, C_2) ..., C_2))_t          the decoder; a frame attends to itself and those before it

Implemented: both queues, both stages and the decoder. Frames that do not exist yet are masked; in an empty long memory
the heads of stage 1 find zeros. Every frame is the newest of its own window, in training too, where the paper learns
from all frames of one window. Norms are before attention, and sizes are ours.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreConfig, CoreStep, WindowCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryConfig(CoreConfig):
    """A decoder of the latest frames over a compressed long memory."""

    hidden: int = 1024  # the width of all layers
    heads: int = 16  # of attention
    context: int = 8  # N, the frames of the short memory
    tokens: tuple[int, int] = (16, 32)  # n_0 and n_1, the queries of both stages
    encoder_layers: int = 2  # of stage 2
    decoder_layers: int = 2
    dropout: float = 0.2  # of u and of what each part of a layer adds

    def __post_init__(self) -> None:
        CoreConfig.__post_init__(self)
        if self.hidden % self.heads:
            raise ConfigError(f"hidden is {self.hidden}, which is not divisible by {self.heads} heads")
        if len(self.tokens) != 2:
            raise ConfigError(f"tokens is {self.tokens}; it takes two numbers, one for each stage")


@dataclass(frozen=True, kw_only=True, slots=True)
class LSTRConfig(MemoryConfig):
    """Two queues of frames."""

    name, title = "lstr", "LSTR"
    long: int = 64  # L, the frames of the long memory

    @property
    def about(self) -> str:
        return f"LSTR, {self.hidden} units, {self.context} frames over {self.long} compressed ones"


class Attention(nn.Module):
    """A(q, m): attention of queries (..., n, d), or (n, d) for all, to a memory (..., m, d)."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        """(..., n, d) as (..., heads, n, d / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def join(self, found: Tensor) -> Tensor:
        """The output for what each head found, (..., heads, n, d / heads)."""
        return self.out(found.transpose(-3, -2).flatten(-2))

    def forward(self, q: Tensor, memory: Tensor, seen: Tensor | None = None) -> Tensor:
        """`seen` (..., n or 1, m): which entries exist. Zero, before `out`, for a query that none exists for."""
        q, k, v = self.split(self.query(q)), self.split(self.key(memory)), self.split(self.value(memory))
        q = q.expand(*k.shape[:-2], *q.shape[-2:])
        if seen is None:
            return self.join(F.scaled_dot_product_attention(q, k, v))
        seen = seen.unsqueeze(-3)
        some = seen.any(-1, keepdim=True)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=(seen | ~some).expand(*q.shape[:-1], k.shape[-2]))
        return self.join(found.masked_fill(~some, 0.0))


class MemoryLayer(nn.Module):
    """D(q, m), in two parts, so that the attention between them can be another one."""

    def __init__(self, config: MemoryConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(hidden) for _ in range(3))
        self.own, self.cross = Attention(hidden, config.heads), Attention(hidden, config.heads)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
        self.dropout = nn.Dropout(config.dropout)

    def before(self, q: Tensor, seen: Tensor | None = None, last: bool = False) -> Tensor:
        """a; of the last query only, if the others are not needed."""
        x = self.norm1(q)
        if last:
            q, seen = q[..., -1:, :], None if seen is None else seen[..., -1:, :]
        return q + self.dropout(self.own(x[..., -1:, :] if last else x, x, seen))

    def after(self, a: Tensor, found: Tensor) -> Tensor:
        """D, from what was found in the memory."""
        c = a + self.dropout(found)
        return c + self.dropout(self.mlp(self.norm3(c)))

    def forward(self, q: Tensor, memory: Tensor, own: Tensor | None = None, last: bool = False) -> Tensor:
        a = self.before(q, own, last)
        return self.after(a, self.cross(self.norm2(a), memory))


class Decoder(nn.Module):
    """y_t, from the tokens of stage 1 and the short memory."""

    def __init__(self, config: MemoryConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.queries = nn.Parameter(0.02 * torch.randn(config.tokens[1], hidden))
        self.places = nn.Parameter(0.02 * torch.randn(config.context, hidden))
        self.stage2 = nn.ModuleList(MemoryLayer(config) for _ in range(config.encoder_layers))
        self.layers = nn.ModuleList(MemoryLayer(config) for _ in range(config.decoder_layers))
        self.norm1, self.norm2, self.norm = (nn.LayerNorm(hidden) for _ in range(3))

    def forward(self, tokens: Tensor, window: Tensor, age: Tensor) -> Tensor:
        """tokens (B, T, n_0, d), windows (B, T, N, d) of which the last `age` (B, T) frames exist: y (B, T, d)."""
        tokens, memory = self.norm1(tokens), self.queries
        for layer in self.stage2:
            memory = layer(memory, tokens)
        slots = torch.arange(window.shape[-2], device=age.device)
        exists = slots >= len(slots) - age.unsqueeze(-1)  # (B, T, N)
        # a frame that does not exist attends to itself, so that it has a finite output; nobody reads it
        seen = (exists.unsqueeze(-2) & (slots <= slots.unsqueeze(-1))) | (slots == slots.unsqueeze(-1))
        u, memory = window + self.places, self.norm2(memory)
        for i, layer in enumerate(self.layers):
            u = layer(u, memory, seen, last=i == len(self.layers) - 1)
        return self.norm(u.squeeze(-2))


def embedding(config: MemoryConfig) -> nn.Sequential:
    """u of x."""
    layers = nn.Linear(config.in_channels, config.hidden), nn.LayerNorm(config.hidden), nn.ReLU()
    return nn.Sequential(*layers, nn.Dropout(config.dropout))


@register_core(LSTRConfig)
class LSTR(WindowCore):
    """Remembers u of the last N + L frames."""

    config: LSTRConfig

    def __init__(self, config: LSTRConfig) -> None:
        super().__init__(config)
        self.window, self.remembered, self.channels = config.context + config.long, config.hidden, config.hidden
        self.embed, self.stage1, self.decoder = embedding(config), MemoryLayer(config), Decoder(config)
        self.queries = nn.Parameter(0.02 * torch.randn(config.tokens[0], config.hidden))
        self.places = nn.Parameter(0.02 * torch.randn(config.long, config.hidden))

    def prepare(self, x: Tensor) -> Tensor:
        return self.embed(x)

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        long, context = self.config.long, self.config.context
        exists = torch.arange(long, device=age.device) >= self.window - age.unsqueeze(-1)  # (B, T, L)
        q = self.stage1.before(self.queries)
        found = self.stage1.cross(self.stage1.norm2(q), window[..., :long, :] + self.places, exists.unsqueeze(-2))
        tokens = self.stage1.after(q, found)
        return CoreStep({"y": self.decoder(tokens, window[..., long:, :], age.clamp_max(context))})


def memory_sizes(size: str) -> dict[str, Any]:
    """Options of LSTR and TeSTra for a data set."""
    small = {"hidden": 96, "heads": 4, "tokens": (8, 16), "encoder_layers": 1} if size == "tiny" else {}
    return {"in_channels": lstm_sizes(size)["in_channels"], **small}


@register_method(
    "lstr",
    title="LSTR",
    task="anticipation",
    reference="Xu et al. 2021, Long Short-Term Transformer for Online Action Detection",
    idea="attend to a compressed long queue",
)
def lstr(size: str) -> PredictorConfig:
    return anticipation(size, LSTRConfig(**memory_sizes(size)))
