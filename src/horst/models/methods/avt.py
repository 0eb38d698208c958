"""AVT-h: a causal transformer foretells the next frame's features, and the next action is read off these.

Girdhar, Grauman 2021, "Anticipative Video Transformer", its head, on the features z of any backbone. With the window of
the last n <= N frames, counted from its first one, and p_i a learnt vector for each place in it:

    u^0_i   = drop(W_enc z_i + p_i)
    v       = u^l + drop(attention(norm(u^l)))          each frame to itself and those before it
    u^{l+1} = v + drop(W_2 gelu(W_1 norm(v)))           4 d units, gelu by tanh, as in GPT-2
    z^_{i+1} = W_dec norm(u^L_i),  y_t = z^_{t+1}

A linear classifier of y names the action; z^ is taught to be the features that come (`horst.training.losses`). The
authors teach their classifier the actions that are going on in the window too; that needs labels of every frame and is
left out. Their table of places has 1024 rows, of which a window uses the first N; here there are N. Their frames are
1 s (or 0.5 s) apart, so that the next one is where the action starts; what the next one is here, the data says.

A window that slides gives each frame a new place in it, so all of it is computed anew; a clip that starts afresh and is
no longer than a window is one pass.

Shapes: B batch, T frames, N frames of a window, C channels, d hidden units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.errors import ConfigError
from horst.layers.core import CoreConfig, CoreOutput, check_lengths
from horst.layers.recurrent import CoreStep, RecurrentState
from horst.layers.window import WindowCore


@dataclass(frozen=True, kw_only=True, slots=True)
class AVTConfig(CoreConfig):
    """A causal transformer over the last frames. Those of its defaults: EPIC-KITCHENS-100 on features of TSN."""

    name: ClassVar[str] = "avt"
    title: ClassVar[str] = "AVT-h"

    in_channels: int
    """C, of the features."""
    hidden: int = 2048
    """d, the width of the transformer."""
    layers: int = 6
    """L"""
    heads: int = 4
    """Of attention, in each layer."""
    context: int = 10
    """N, how many frames it looks at, the last one among them."""
    dropout: float = 0.1
    """Of what enters the first layer, of attention, and of what each part of a layer adds."""

    def __post_init__(self) -> None:
        check_positive(in_channels=self.in_channels, hidden=self.hidden, layers=self.layers)
        check_positive(heads=self.heads, context=self.context)
        if self.hidden % self.heads:
            raise ConfigError(f"hidden is {self.hidden}, which {self.heads} heads do not divide")
        check_dropout(self.dropout)

    @property
    def about(self) -> str:
        return f"AVT-h, {self.layers} causal layers of {self.hidden} units over {self.context} frames"


class Block(nn.Module):
    """Attention and two layers, each after a norm and added to what it reads."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, u: Tensor) -> Tensor:
        """u (B, N, d)"""
        u = u + self.dropout(self.proj(self.attend(self.norm1(u))))
        return u + self.dropout(self.fc2(F.gelu(self.fc1(self.norm2(u)), approximate="tanh")))

    def attend(self, u: Tensor) -> Tensor:
        q, k, v = self.qkv(u).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, heads, N, d / heads)
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        return found.transpose(1, 2).flatten(2)


class AVT(WindowCore):
    """y_t = z^_{t+1}, and that is what it foretells."""

    config: AVTConfig
    predicts_features = True

    def __init__(self, config: AVTConfig) -> None:
        super().__init__(config)
        self.window = config.context
        self.encoder = nn.Linear(config.in_channels, config.hidden, bias=False)
        self.places = nn.Parameter(torch.empty(config.context, config.hidden))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*(Block(config.hidden, config.heads, config.dropout) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.hidden)
        self.decoder = nn.Linear(config.hidden, config.in_channels, bias=False)
        self._initialise()

    def _initialise(self) -> None:
        for layer in self.blocks.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        nn.init.normal_(self.places, std=0.02)
        for layer in (self.encoder, self.decoder):
            nn.init.normal_(layer.weight, std=0.01)

    @property
    def channels(self) -> int:
        return self.config.in_channels

    def forward(
        self,
        x: Tensor,
        state: RecurrentState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        attention: bool = False,
    ) -> tuple[CoreOutput, RecurrentState]:
        """A clip x (B, T, C, H, W), as `RecurrentCore.forward`; in one pass where that is the same."""
        self._refuse(attention)
        self.check_input(x, 5, "(B, T, C, H, W)")
        batch, frames = x.shape[:2]
        ragged = min(check_lengths(lengths, batch, frames)) < frames
        if state is not None or frames > self.window or ragged:
            return super().forward(x, state, lengths)
        state = self.init_state(batch, *x.shape[-2:])
        z = x.mean((-2, -1))
        said = self._say(self.foretell(z))
        queue = torch.cat([state.memory["queue"][:, frames:], z], 1)
        after = RecurrentState({"queue": queue}, state.count + frames, self.config)
        return self._output(said._replace(maps={"y": said.maps["y"][..., None, None]})), after

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        shape, slots = age.shape, torch.arange(self.window, device=age.device)
        window, age = window.flatten(0, 1), age.flatten().unsqueeze(-1)
        # what was seen goes to the front, where its places are counted from; nothing looks at what is behind it
        order = (slots + self.window - age) % self.window  # (B T, N)
        window = window.gather(1, order.unsqueeze(-1).expand(window.shape))
        foretold = self.foretell(window, age - 1).squeeze(1)
        return self._say(foretold.unflatten(0, shape))

    def foretell(self, z: Tensor, last: Tensor | None = None) -> Tensor:
        """z^ (B, N, C) after each frame of z (B, N, C), or after those in the places `last` (B, n) alone."""
        u = self.blocks(self.dropout(self.encoder(z) + self.places[: z.shape[1]]))
        if last is not None:
            u = u.gather(1, last.unsqueeze(-1).expand(*last.shape, u.shape[-1]))
        return self.decoder(self.norm(u))

    @staticmethod
    def _say(foretold: Tensor) -> CoreStep:
        """Of z^ (..., C)."""
        return CoreStep({"y": foretold}, foretold.unsqueeze(-2))
