"""ED, an encoder-decoder that predicts features. The encoder is the core "lstm", this head is the decoder.

Gao, Yang, Nevatia 2017, "RED: Reinforced Encoder-Decoder Networks for Action Anticipation", without reinforcement, as
Furnari and Farinella 2019 compare it with RULSTM. With (h_t, c_t) the encoder's state at frame t and n the horizon:

    (h, c) <- (h_t, c_t);  x^_t = x_t
    for k = 1 .. n:   (h, c) = LSTM_D(drop(x^_{t+k-1}), h, c);   x^_{t+k} = W_x h + b_x
    logits_t = W drop(h) + b

The loss is cross-entropy plus the squared distance of x^ from the real features (`loss.features`). With `complete` the
decoder reads the real features.
"""

from torch import Tensor, nn

from horst.heads import register_head
from horst.models.methods.lstm import LSTMConfig
from horst.models.methods.rulstm import RollingUnrollingHead
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@register_head("encoder_decoder")
class EncoderDecoderHead(RollingUnrollingHead):
    """The decoder reads its own predictions."""

    predicts_features = True

    def __init__(
        self, channels: int, *, features: int, num_classes: int, steps: int = 14, dropout: float = 0.8
    ) -> None:
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout, extra=0)
        self.fc_x = nn.Linear(channels, features)

    def next_input(self, h: Tensor, seen: Tensor) -> Tensor:
        return self.fc_x(h)


@register_method(
    "encoder_decoder",
    title="ED",
    task="anticipation",
    reference="Gao, Yang, Nevatia 2017, RED: Reinforced Encoder-Decoder Networks for Action Anticipation",
    idea="predict the features to come",
    rows={"ek55": "ED"},
    loss={"features": 1.0},
)
def encoder_decoder(size: str) -> PredictorConfig:
    return anticipation(size, LSTMConfig(**lstm_sizes(size)), "encoder_decoder")
