"""What RU, ED and ImagineRNN share: an LSTM of their own runs on from what an LSTM core has seen.

    (h, c) <- (h_t, c_t) of the core;  x^_t = x_t
    for k = 1 .. n:   (h, c) = LSTM(drop(x^_{t+k-1}), h, c);   x^_{t+k} = following(h, x^_{t+k-1})
    logits_t = W drop(h) + b

n is the horizon, in frames until the action starts. Every step of every frame draws its own dropout mask. The methods
differ by `following`: what they take the next feature to be.

Shapes: B batch, T frames, C channels, F features, U horizons, K steps ahead.
"""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.heads.base import Unroll, Unroller, select
from horst.heads.logits import Logits, check_maps
from horst.layers import LSTMCell


class GoingAheadHead(Unroller):
    """Reads h (as y), c and x of an LSTM core; foretells the action alone."""

    reads = ("y", "c", "x")
    extra = 0
    """Steps that it runs beyond the horizon."""

    def __init__(
        self, channels: int, *, features: int, num_classes: int, steps: int = 14, dropout: float = 0.8
    ) -> None:
        """`features`: channels of x; `dropout`: of what the LSTM reads and of what the classifier reads."""
        super().__init__()
        check_positive(channels=channels, features=features, num_classes=num_classes, steps=steps)
        check_dropout(dropout)
        self.steps = steps
        self.dropout = nn.Dropout(dropout)
        self.lstm = LSTMCell(features, channels)
        self.fc = nn.Linear(channels, num_classes)

    @abstractmethod
    def following(self, h: Tensor, seen: Tensor) -> Tensor:
        """The next feature (B, T, F), from h (B, T, C) after the LSTM read `seen` (B, T, F)."""

    @property
    def channels(self) -> int:
        return self.lstm.hidden

    @property
    def classes(self) -> dict[str, int]:
        return {"action": self.fc.out_features}

    def forward(
        self,
        *,
        y: Tensor,
        c: Tensor,
        x: Tensor,
        unroll: Unroll | None = None,
        valid: Tensor | None = None,
        complete: bool = False,
    ) -> Logits:
        """Logits (B, T, classes) of maps (B, T, C, H, W), or (B, classes) of one frame (B, C, H, W).

        `unroll`: the horizon, from 1 on; one number for all frames, or one a frame, or U of them a frame, which puts an
        axis of U horizons before the classes. For one frame: a number, or U of them. `complete` is for pretraining by
        sequence completion: the LSTM reads the frames that really follow, as far as there are any.
        """
        check_maps(self.lstm.hidden, y=y, c=c)
        check_maps(self.lstm.inputs, x=x)
        clip = y.ndim == 5
        h, c, x = (m.mean((-2, -1)) if clip else m.mean((-2, -1)).unsqueeze(1) for m in (y, c, x))
        horizons, several = self.horizons(unroll, x.shape[1], clip)
        if not complete:
            horizons = [[k + self.extra for k in row] for row in horizons]

        def advance(state: tuple[Tensor, ...], running: list[int], k: int) -> tuple[Tensor, ...]:
            h, c, seen = state
            if complete:
                seen = select(x, [min(t + k, x.shape[1]) - 1 for t in running])
            h, c = self.lstm(self.dropout(seen), h, c)
            return h, c, self.following(h, seen)

        ahead, future = self.ahead((h, c, x), horizons, advance, keep=2 if self.predicts_features else None)
        action = self.fc(self.dropout(ahead))  # (B, T, U, classes)
        action = action if several else action.squeeze(2)
        if clip:
            return Logits(action, future=future)  # (B, T, K, F)
        return Logits(action.squeeze(1), future=None if future is None else future.squeeze(1))
