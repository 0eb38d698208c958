"""ED, an encoder-decoder that foretells features. The encoder is the core "lstm", this head is the decoder.

Gao, Yang, Nevatia 2017, "RED: Reinforced Encoder-Decoder Networks for Action Anticipation", without its reinforcement,
as Furnari and Farinella 2019 compare it with RULSTM. With (h_t, c_t) the encoder's state at frame t:

    (h, c) <- (h_t, c_t);  x^_t = x_t
    for k = 1 .. n:   (h, c) = LSTM_D(drop(x^_{t+k-1}), h, c);   x^_{t+k} = W_x h + b_x
    logits_t = W drop(h) + b

n is the horizon. The loss is cross-entropy plus the squared distance of x^ from the features that really come
(`loss.features`). What is left open: how Furnari and Farinella weigh the two, and the sizes of their decoder; here it
is as wide as the encoder, and dropout is RULSTM's. With `complete` the decoder reads the real features.
"""

from __future__ import annotations

from torch import Tensor, nn

from horst.models.methods.going_ahead import GoingAheadHead


class EncoderDecoderHead(GoingAheadHead):
    """The decoder reads what it has foretold itself."""

    predicts_features = True

    def __init__(
        self, channels: int, *, features: int, num_classes: int, steps: int = 14, dropout: float = 0.8
    ) -> None:
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout)
        self.fc_x = nn.Linear(channels, features)

    def following(self, h: Tensor, seen: Tensor) -> Tensor:
        return self.fc_x(h)
