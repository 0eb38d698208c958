"""AVT-h: a causal transformer predicts the features of the next frame, from which the action is classified.

It is the head of the Anticipative Video Transformer, on the features z of any backbone. With the window of the last
n <= N frames, counted from its first one, and p_i a learnt vector for each index:

    u^0_i   = drop(W_enc z_i + p_i)
    v       = u^l + drop(attention(norm(u^l)))          each frame to itself and those before it
    u^{l+1} = v + drop(W_2 gelu(W_1 norm(v)))           4 d units, gelu by tanh, as in GPT-2
    z^_{i+1} = W_dec norm(u^L_i),  y_t = z^_{t+1}

z^ learns to equal the features that come (`loss.features`). The authors' table of positions has 1024 rows, of which a
window uses the first N; here there are N. When the window moves, every frame gets a new index, so all of it is computed
again; a clip that is not longer than a window is one pass.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreConfig, CoreStep, Memory, WindowCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class AVTConfig(CoreConfig):
    """A causal transformer over the last frames. Defaults: EPIC-Kitchens 100 on TSN features."""

    name, title = "avt", "AVT-h"
    hidden: int = 2048  # d, the width of the transformer
    layers: int = 6  # L
    heads: int = 4  # of attention, in each layer
    context: int = 10  # N, the frames of the window
    dropout: float = 0.1  # of the input, of attention, and of what each part of a layer adds

    def __post_init__(self) -> None:
        CoreConfig.__post_init__(self)
        if self.hidden % self.heads:
            raise ConfigError(f"hidden is {self.hidden}, which is not divisible by {self.heads} heads")

    @property
    def about(self) -> str:
        return f"AVT-h, {self.layers} causal layers of {self.hidden} units over {self.context} frames"


class CausalBlock(nn.Module):
    """Causal attention and an MLP, each after a norm and with a residual connection."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, u: Tensor) -> Tensor:
        """u (B, N, d)"""
        qkv = self.qkv(self.norm1(u)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, N, d / heads)
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        u = u + self.dropout(self.proj(found.transpose(1, 2).flatten(2)))
        return u + self.dropout(self.fc2(F.gelu(self.fc1(self.norm2(u)), approximate="tanh")))


@register_core(AVTConfig)
class AVT(WindowCore):
    """y_t = z^_{t+1}, the predicted features."""

    config: AVTConfig
    predicts_features = True

    def __init__(self, config: AVTConfig) -> None:
        super().__init__(config)
        self.window, self.channels = config.context, config.in_channels
        self.encoder = nn.Linear(config.in_channels, config.hidden, bias=False)
        self.places = nn.Parameter(torch.empty(config.context, config.hidden))
        self.dropout = nn.Dropout(config.dropout)
        sizes = config.hidden, config.heads, config.dropout
        self.blocks = nn.Sequential(*(CausalBlock(*sizes) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.hidden)
        self.decoder = nn.Linear(config.hidden, config.in_channels, bias=False)
        for layer in self.blocks.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        nn.init.normal_(self.places, std=0.02)
        nn.init.normal_(self.encoder.weight, std=0.01)
        nn.init.normal_(self.decoder.weight, std=0.01)

    def unfold_first(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """One pass, if the clip is not longer than a window."""
        frames = x.shape[1]
        if frames > self.window:
            return self.unfold(x, memory, count)
        z = x.mean((-2, -1))
        predicted = self.predict(z)
        output = CoreStep({"y": predicted}, predicted.unsqueeze(-2)).as_maps()
        return output, {"queue": torch.cat([memory["queue"][:, frames:], z], 1)}

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        shape, slots = age.shape, torch.arange(self.window, device=age.device)
        window, age = window.flatten(0, 1), age.flatten().unsqueeze(-1)
        # existing frames go to the front, where indices start; causal attention hides what is after them
        order = (slots + self.window - age) % self.window  # (B T, N)
        window = window.gather(1, order.unsqueeze(-1).expand(window.shape))
        predicted = self.predict(window, age - 1).squeeze(1).unflatten(0, shape)
        return CoreStep({"y": predicted}, predicted.unsqueeze(-2))

    def predict(self, z: Tensor, last: Tensor | None = None) -> Tensor:
        """z^ (B, N, C) after each frame of z (B, N, C), or only after those with the indices `last` (B, n)."""
        u = self.blocks(self.dropout(self.encoder(z) + self.places[: z.shape[1]]))
        if last is not None:
            u = u.gather(1, last.unsqueeze(-1).expand(*last.shape, u.shape[-1]))
        return self.decoder(self.norm(u))


@register_method(
    "avt",
    title="AVT-h",
    task="anticipation",
    reference="Girdhar, Grauman 2021, Anticipative Video Transformer",
    idea="a causal transformer predicts features",
    parameters="613,170,641 counted from the authors' code",
    rows={"ek55-backbones": "AVT-h", "ek100": "AVT-h"},
    loss={"features": 1.0},
    clips={"ek55": {"steps": 11, "stride": 0.5}, "ek100": {"steps": 10, "stride": 1.0}},
)
def avt(size: str) -> PredictorConfig:
    sizes = {"tiny": {"hidden": 128, "layers": 3, "context": 14}, "ek55": {"layers": 12, "heads": 8}, "ek100": {}}
    core = AVTConfig(in_channels=lstm_sizes(size)["in_channels"], **sizes[size])
    head: dict[str, Any] = {"dropout": 0.2} if size == "ek100" else {}  # as in the authors' code
    return anticipation(size, core, **head)
