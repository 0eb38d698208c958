"""ImagineRNN predicts how the features change from frame to frame until the action, on the core "lstm".

Wu, Zhu, Wang, Yang, Wu 2021, "Learning to Anticipate Egocentric Actions by Imagination". It predicts the difference to
the next feature, because neighbouring frames are alike. With (h_t, c_t) the core's state at frame t and n the horizon:

    (h, c) <- (h_t, c_t);  x^_t = x_t
    for k = 1 .. n:   (h, c) = LSTM_I(drop(x^_{t+k-1}), h, c);   x^_{t+k} = x^_{t+k-1} + W_x h + b_x
    logits_t = W drop(h) + b

The loss is cross-entropy plus a contrastive loss: x^ must be closer to the right frame than to other frames
(`loss.features`, distance "contrastive"). With `complete` the LSTM reads the real features.
"""

from torch import Tensor, nn

from horst.heads import register_head
from horst.models.methods.lstm import LSTMConfig
from horst.models.methods.rulstm import RollingUnrollingHead
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@register_head("imagine")
class ImagineHead(RollingUnrollingHead):
    """The LSTM reads its own predictions."""

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
        """`residual`: predict the difference to the next feature; without it, the feature itself."""
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout, extra=0)
        self.residual = residual
        self.fc_x = nn.Linear(channels, features)

    def next_input(self, h: Tensor, seen: Tensor) -> Tensor:
        return seen + self.fc_x(h) if self.residual else self.fc_x(h)


@register_method(
    "imagine_rnn",
    title="ImagineRNN",
    task="anticipation",
    reference="Wu et al. 2021, Learning to Anticipate Egocentric Actions by Imagination",
    idea="predict feature differences, frame by frame",
    rows={"ek55-backbones": "ImagineRNN"},
    loss={"features": 1.0, "distance": "contrastive", "temperature": 0.1},
)
def imagine_rnn(size: str) -> PredictorConfig:
    return anticipation(size, LSTMConfig(**lstm_sizes(size)), "imagine")
