"""TeSTra: LSTR whose long memory is smoothed exponentially: it reaches back to the first frame at constant cost.

Attention of a query q to the frames n <= T of a stream, with keys k_n and values v_n, where a frame weighs less by the
factor e^-lambda for each frame of its age (the Laplace kernel of the paper):

    phi_T = sum_n e^{-lambda (T - n)} e^{q . k_n / sqrt(d)} v_n    = e^-lambda phi_{T-1} + e^{q . k_T / sqrt(d)} v_T
    psi_T = sum_n e^{-lambda (T - n)} e^{q . k_n / sqrt(d)}        = e^-lambda psi_{T-1} + e^{q . k_T / sqrt(d)}
    ES(q) = phi_T / psi_T

The recursion holds because the queries of stage 1 are learnt and do not depend on time. The state is a = phi / psi and
l = log psi for each query and head, with s = q . k_T / sqrt(d):

    l_T = log(e^{l_{T-1} - lambda} + e^s),    a_T = e^{l_{T-1} - lambda - l_T} a_{T-1} + e^{s - l_T} v_T

Both weights of a_T are at most 1, so nothing overflows, and rounding errors fade like the frames. A clip is computed in
blocks: within a block all sums at once, with (a, l) of the frames before it as one more key and value.

Implemented: stage 1 by ES attention over the frames that have left the short memory; stage 2, the short memory and the
decoder are those of LSTR, with its differences from the paper. The paper's other kernel, a box of the last frames, is
LSTR. Left out: learnt queries for several future times (heads and targets of this package do that) and MixClip.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from horst.config import check_entries
from horst.layers import CoreStep, Memory, VectorCore, register_core
from horst.models.methods.lstr import Decoder, MemoryConfig, MemoryLayer, embedding, memory_sizes
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, register_method

BLOCK = 64  # frames whose sums are computed at once: memory grows with frames times BLOCK


@dataclass(frozen=True, kw_only=True, slots=True)
class TeSTraConfig(MemoryConfig):
    """A queue of frames and smoothed sums over all frames before it."""

    name, title = "testra", "TeSTra"
    decay: float = 0.97  # e^-lambda; 1: all frames weigh the same

    def __post_init__(self) -> None:
        MemoryConfig.__post_init__(self)
        check_entries(self.name, self, decay=">0")
        check_entries(self.name, self, decay="0..1")

    @property
    def about(self) -> str:
        return f"TeSTra, {self.hidden} units, {self.context} frames over all before them, smoothed by {self.decay:g}"


def smooth(
    scores: Tensor, values: Tensor, exists: Tensor, mean: Tensor, log_weight: Tensor, begun: Tensor, rate: float
) -> tuple[Tensor, Tensor]:
    """a (B, h, M, T, D) and l (B, h, M, T) after each frame of a block; zero before the first frame that exists.

    Args:
        scores: s (B, h, M, T), of M queries and h heads.
        values: v (B, h, T, D).
        exists: (B, T), which of these frames count.
        mean: a (B, h, M, D) before the block.
        log_weight: l (B, h, M) before the block.
        begun: (B,), whether a frame before the block counted.
        rate: lambda.
    """
    index = torch.arange(scores.shape[-1], device=scores.device, dtype=log_weight.dtype)
    age = index.unsqueeze(-1) - index  # (T, T), of the frame in a column at the frame in a row
    before = log_weight[..., None, None] - rate * (index + 1).unsqueeze(-1)  # (B, h, M, T, 1)
    known = torch.cat(
        [begun[:, None, None].expand(-1, len(index), 1), exists.unsqueeze(1) & (age >= 0)], -1
    )  # (B, T, 1 + T)
    hidden = ~known[:, None, None]
    scores = torch.cat([before, scores.unsqueeze(-2) - rate * age], -1)
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1).masked_fill(hidden, 0.0)
    new = (weights[..., 1:].flatten(2, 3) @ values).unflatten(2, weights.shape[2:4])
    total = scores.logsumexp(-1).masked_fill(~known.any(-1)[:, None, None], 0.0)
    return weights[..., :1] * mean.unsqueeze(-2) + new, total


@register_core(TeSTraConfig)
class TeSTra(VectorCore):
    """Remembers u of the last N frames, and a and l of all frames before them."""

    config: TeSTraConfig

    def __init__(self, config: TeSTraConfig) -> None:
        super().__init__(config)
        self.channels, self.rate = config.hidden, -math.log(config.decay)
        self.embed, self.stage1, self.decoder = embedding(config), MemoryLayer(config), Decoder(config)
        self.queries = nn.Parameter(0.02 * torch.randn(config.tokens[0], config.hidden))

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        config = self.config
        shape = (config.heads, config.tokens[0])
        sums = {"mean": (*shape, config.hidden // config.heads), "log_weight": shape}
        return {"queue": (config.context, config.hidden), **sums}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """At each frame the one that leaves the short memory enters the long memory."""
        frames, context = x.shape[1], self.config.context
        queue = torch.cat([memory["queue"], self.embed(x)], 1)  # (B, N + T, d)
        seen = count.unsqueeze(1) + torch.arange(frames, device=x.device)  # (B, T), frames before each
        age = (seen + 1).clamp_max(context)
        window = queue[:, 1:].unfold(1, context, 1).mT  # (B, T, N, d)
        unseen = torch.arange(context, device=x.device) < context - age.unsqueeze(-1)
        q = self.stage1.before(self.queries)
        found, mean, log_weight = self.recall(self.stage1.norm2(q), queue[:, :frames], seen - context, memory)
        tokens = self.stage1.after(q, found)
        y = self.decoder(tokens, window.masked_fill(unseen.unsqueeze(-1), 0.0), age)
        return CoreStep({"y": y}), {"queue": queue[:, frames:].contiguous(), "mean": mean, "log_weight": log_weight}

    def recall(self, q: Tensor, u: Tensor, number: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """What queries (M, d) find after each of the frames u (B, T, d), (B, T, M, d), and the state after the last.

        `number` (B, T): which frame of its stream each is; it is negative for those that do not exist.
        """
        attention, mean, log_weight, found = self.stage1.cross, memory["mean"], memory["log_weight"], []
        query = attention.split(attention.query(q)) / math.sqrt(mean.shape[-1])  # (h, M, D)
        for block, place in zip(u.split(BLOCK, 1), number.split(BLOCK, 1), strict=True):
            block = block.masked_fill(place.unsqueeze(-1) < 0, 0.0)
            scores = query @ attention.split(attention.key(block)).mT  # (B, h, M, T)
            values = attention.split(attention.value(block))
            means, totals = smooth(scores, values, place >= 0, mean, log_weight, place[:, 0] > 0, self.rate)
            mean, log_weight = means[..., -1, :].to(mean.dtype), totals[..., -1].to(log_weight.dtype)
            found.append(attention.join(means.permute(0, 3, 1, 2, 4)))
        return torch.cat(found, 1), mean.contiguous(), log_weight.contiguous()


@register_method(
    "testra",
    title="TeSTra",
    task="anticipation",
    reference="Zhao, Kraehenbuehl 2022, Real-time Online Video Detection with Temporal Smoothing Transformers",
    idea="smoothed attention to all frames so far",
)
def testra(size: str) -> PredictorConfig:
    return anticipation(size, TeSTraConfig(**memory_sizes(size)))
