"""ActionBanks: attention between the recent past and the whole past, at several time scales.

A span of frames is cut into snippets, and each snippet keeps the maximum of every feature. With S the D x K_S snippets
of all stored frames, R the D x K_R ones of a recent span, and [;] concatenation:

    NLB(A, B) = B + drop(act(norm(softmax(th(B) ph(A)^T / sqrt(d)) g(A))) W_o)    th, ph, g: D x K -> D x d
    S' = act(NLB(S, S)),   R' = act(NLB(S', R))                                   act = ReLU, also in NLB
    r = MLP_r([R'; R]),    s = MLP_s([S'; R'; R])                                 FC, act, drop, FC, all of width d
    aggregate of R = [W [r_1; r_2; ...] + b; max(s_1, s_2, ...)]                  over the ways to cut S
    y = [aggregates of all recent spans]

As in the authors' code, the layers th, ph and g mix snippets, and the D features attend to each other: the attention is
D x D, and the norm is over D x d. The classifiers of the aggregates, whose scores are summed, are a linear layer on y.

In a stream that is younger than a span the frames so far are cut: snippet k of n frames is frames floor(k n / K) up to
floor((k + 1) n / K), and at least one.

Shapes: N frames of a window, D channels, K snippets.
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
class ActionBanksConfig(CoreConfig):
    """Temporal aggregates of the last frames."""

    name, title = "action_banks", "ActionBanks"
    memory: int = 14  # how many frames are stored
    spanning: tuple[int, ...] = (2, 3, 5)  # into how many snippets the stored frames are cut; one number per scale
    recent: tuple[int, ...] = (2, 3, 5, 6)  # the recent spans in frames; each has an aggregate
    recent_snippets: int = 2  # into how many snippets a recent span is cut
    hidden: int = 512  # d, the width of all layers
    dropout: float = 0.3  # in the blocks

    def __post_init__(self) -> None:
        CoreConfig.__post_init__(self)
        if max(self.recent) > self.memory:
            raise ConfigError(f"recent has a span of {max(self.recent)} frames and memory is {self.memory}: raise it")

    @property
    def about(self) -> str:
        spans = ", ".join(map(str, self.recent))
        return f"ActionBanks, aggregates of the last {spans} of {self.memory} frames, {self.hidden} hidden units"


def snippets(window: Tensor, age: Tensor, span: int, parts: int) -> Tensor:
    """(..., D, parts): the last `span` frames of windows (..., N, D), or the `age` (...) that exist, max-pooled."""
    frames = age.clamp_max(span).unsqueeze(-1)  # (..., 1)
    part = torch.arange(parts, device=age.device)
    first = part * frames // parts  # (..., K), counted from the span's first frame
    last = torch.maximum((part + 1) * frames // parts - 1, first)
    longest = torch.arange(-(-span // parts), device=age.device)
    index = torch.minimum(first.unsqueeze(-1) + longest, last.unsqueeze(-1))  # (..., K, frames of the longest)
    slot = index.flatten(-2) + window.shape[-2] - frames
    chosen = window.gather(-2, slot.unsqueeze(-1).expand(*slot.shape, window.shape[-1]))
    return chosen.unflatten(-2, (parts, len(longest))).amax(-2).mT


class NonLocalBlock(nn.Module):
    """NLB(A, B): each feature of B (..., D, K_B) attends to those of A (..., D, K_A)."""

    def __init__(self, features: int, keys: int, queries: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.theta, self.phi, self.g = (nn.Linear(k, hidden) for k in (queries, keys, keys))
        self.norm = nn.LayerNorm((features, hidden))
        self.out = nn.Linear(hidden, queries)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.theta, self.phi, self.g, self.out):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        found = F.scaled_dot_product_attention(self.theta(b), self.phi(a), self.g(a))  # (..., D, d)
        return b + self.dropout(self.out(torch.relu(self.norm(found))))


class CouplingBlock(nn.Module):
    """(r, s), each (..., d), of one recent span R (..., D, K_R) and one way S (..., D, K_S) to cut the past."""

    def __init__(self, features: int, past: int, recent: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.past = NonLocalBlock(features, past, past, hidden, dropout)
        self.recent = NonLocalBlock(features, past, recent, hidden, dropout)
        self.mlp_r, self.mlp_s = (
            nn.Sequential(nn.Linear(k * features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, hidden))
            for k in (2 * recent, past + 2 * recent)
        )

    def forward(self, s: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.relu(self.past(s, s))
        informed = torch.relu(self.recent(s, r))
        both = torch.cat([informed, r], -1)
        return self.mlp_r(both.flatten(-2)), self.mlp_s(torch.cat([s, both], -1).flatten(-2))


class TemporalAggregate(nn.Module):
    """One recent span with the past at every scale: (..., 2 d)."""

    def __init__(self, config: ActionBanksConfig) -> None:
        super().__init__()
        sizes = config.recent_snippets, config.hidden, config.dropout
        self.couplings = nn.ModuleList(CouplingBlock(config.in_channels, past, *sizes) for past in config.spanning)
        self.join = nn.Linear(len(config.spanning) * config.hidden, config.hidden)

    def forward(self, pasts: list[Tensor], recent: Tensor) -> Tensor:
        pairs = [coupling(past, recent) for coupling, past in zip(self.couplings, pasts, strict=True)]
        r, s = zip(*pairs, strict=True)
        return torch.cat([self.join(torch.cat(r, -1)), torch.stack(s).amax(0)], -1)


@register_core(ActionBanksConfig)
class ActionBanks(WindowCore):
    """y_t: the aggregates of all recent spans, concatenated."""

    config: ActionBanksConfig

    def __init__(self, config: ActionBanksConfig) -> None:
        super().__init__(config)
        self.window = config.memory
        self.channels = 2 * config.hidden * len(config.recent)
        self.aggregates = nn.ModuleList(TemporalAggregate(config) for _ in config.recent)

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        config = self.config
        pasts = [snippets(window, age, config.memory, parts) for parts in config.spanning]
        recents = [snippets(window, age, span, config.recent_snippets) for span in config.recent]
        seen = [aggregate(pasts, recent) for aggregate, recent in zip(self.aggregates, recents, strict=True)]
        return CoreStep({"y": torch.cat(seen, -1)})


@register_method(
    "action_banks",
    title="ActionBanks",
    task="anticipation",
    reference="Sener, Singhania, Yao 2020, Temporal Aggregate Representations for Long-Range Video Understanding",
    idea="recent spans attend to the past",
    parameters="118,376,184 counted from the authors' code, with verbs and nouns",
    rows={"ek55-backbones": "ActionBanks"},
)
def action_banks(size: str) -> PredictorConfig:
    small: dict[str, Any] = {"hidden": 64, "spanning": (2, 3), "recent": (2, 5)} if size == "tiny" else {}
    core = ActionBanksConfig(in_channels=lstm_sizes(size)["in_channels"], **small)
    return anticipation(size, core, dropout=0.0)
