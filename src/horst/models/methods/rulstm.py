"""RU, the rolling-unrolling LSTM. The rolling one is the core "lstm", this head is the unrolling one.

Furnari, Farinella 2019, "What Would You Expect? Anticipating Egocentric Actions with Rolling-Unrolling LSTMs and
Modality Attention". With x_t the feature of a frame, T frames, t counted from 0:

    (h_t, c_t) = LSTM_R(drop(x_t), h_{t-1}, c_{t-1})
    (h, c) <- (h_t, c_t), then n times   (h, c) = LSTM_U(drop(x_t), h, c)
    logits_t = W drop(h) + b

The release runs n = T - t + 1 steps, one more than there are frames until the action: that is `extra`. In pretraining
by sequence completion LSTM_U reads x_t, x_{t+1} .. x_{T-1} instead of copies of x_t: n = T - t steps, none extra.

Its loss is cross-entropy of the action alone at the last 8 of 14 frames. The fusion of modalities by attention is not
part of it.
"""

from __future__ import annotations

from torch import Tensor

from horst.errors import ConfigError
from horst.models.methods.going_ahead import GoingAheadHead


class RollingUnrollingHead(GoingAheadHead):
    """The unrolling LSTM reads the last frame that was seen again and again."""

    def __init__(
        self,
        channels: int,
        *,
        features: int,
        num_classes: int,
        steps: int = 14,
        dropout: float = 0.8,
        extra: int = 1,
    ) -> None:
        """`extra`: steps beyond the horizon, 1 in the release; 0 runs as many as there are frames until the action."""
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout)
        if type(extra) is not int or extra < 0:
            raise ConfigError(f"extra is {extra!r}; it takes a whole number from 0 on")
        self.extra = extra

    def following(self, h: Tensor, seen: Tensor) -> Tensor:
        return seen
