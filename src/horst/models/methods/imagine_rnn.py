"""ImagineRNN imagines the frames until the action one after another, on the core "lstm".

Wu, Zhu, Wang, Yang, Wu 2021, "Learning to Anticipate Egocentric Actions by Imagination". With (h_t, c_t) the core's
state at frame t:

    (h, c) <- (h_t, c_t);  x^_t = x_t
    for k = 1 .. n:   (h, c) = LSTM_I(drop(x^_{t+k-1}), h, c);   x^_{t+k} = x^_{t+k-1} + W_x h + b_x
    logits_t = W drop(h) + b

n is the horizon. The difference to the next feature is foretold instead of the feature itself: neighbouring frames are
alike. The loss is cross-entropy plus a contrast: the right frame is to be told from others (`loss.features`, distance
"contrastive").

What is left open: the sizes and dropout, for which RULSTM's are taken; the weight, temperature and likeness of the
contrast; and whether it compares differences or, as here, the features that they add up to. With `complete` the LSTM
reads the real features.
"""

from __future__ import annotations

from torch import Tensor, nn

from horst.models.methods.going_ahead import GoingAheadHead


class ImagineHead(GoingAheadHead):
    """The LSTM reads what it has imagined itself."""

    predicts_features = True

    def __init__(
        self,
        channels: int,
        *,
        features: int,
        num_classes: int,
        steps: int = 14,
        dropout: float = 0.8,
        residual: bool = True,
    ) -> None:
        """`residual`: foretell the difference to the next feature; without it, the feature itself."""
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout)
        self.residual = residual
        self.fc_x = nn.Linear(channels, features)

    def following(self, h: Tensor, seen: Tensor) -> Tensor:
        return seen + self.fc_x(h) if self.residual else self.fc_x(h)
