"""RU, ED and ImagineRNN: one LSTM reads the frames (the core "lstm"), another one, the head, runs on until the action.

RU is the rolling-unrolling LSTM, without its attention to modalities. With x_t the feature of a frame, T frames, t
counted from 0:

    (h_t, c_t) = LSTM_R(drop(x_t), h_{t-1}, c_{t-1})
    (h, c) <- (h_t, c_t), then n times   (h, c) = LSTM_U(drop(x_t), h, c)
    logits_t = W drop(h) + b

The release runs n = T - t + 1 steps, one more than there are frames until the action: that is `extra`. In pretraining
by sequence completion (`complete`) LSTM_U reads x_t, x_{t+1} .. x_{T-1} instead of copies of x_t: n = T - t steps, none
extra.

ED, the encoder-decoder without reinforcement, as RULSTM's authors compare it, predicts the features to come. ImagineRNN
predicts the difference to the next feature, because neighbouring frames are alike. The head reads its own predictions:

    x^_t = x_t
    for k = 1 .. n:   (h, c) = LSTM_U(drop(x^_{t+k-1}), h, c);   x^_{t+k} = W_x h + b_x  [ImagineRNN: + x^_{t+k-1}]

ED adds the squared distance of x^ from the real features to the loss (`loss.features`), ImagineRNN a contrastive loss:
x^ must be closer to the right frame than to other frames (distance "contrastive").

Shapes: F features, U horizons, K steps ahead.
"""

from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.errors import ConfigError
from horst.heads import Logits, Unroller, check_maps, register_head
from horst.layers import LSTMCell
from horst.models.methods.lstm import lstm
from horst.models.predictor import PredictorConfig
from horst.models.registry import register_method


@register_head("encoder_decoder")
class EncoderDecoderHead(Unroller):
    """Continues from h (as y), c and x of the core "lstm", and reads its own predictions.

    Every step of every frame has its own dropout mask.
    """

    reads = ("y", "c", "x")
    predicts_features = True

    def __init__(
        self, channels: int, *, features: int, num_classes: int, steps: int = 14, dropout: float = 0.8
    ) -> None:
        """For h and c of `channels`, x of `features` and clips of `steps` frames.

        `dropout`: of the inputs of the LSTM and of the classifier.
        """
        super().__init__(channels, {"action": num_classes})
        check_positive(channels=channels, features=features, steps=steps)
        check_dropout(dropout)
        self.steps = steps
        self.dropout = nn.Dropout(dropout)
        self.lstm = LSTMCell(features, channels)
        self.fc = nn.Linear(channels, num_classes)
        if self.predicts_features:
            self.fc_x = nn.Linear(channels, features)

    def next_input(self, h: Tensor, x: Tensor) -> Tensor:
        """The next feature (B, T, F) to read, from h (B, T, C) after the LSTM read x (B, T, F)."""
        return self.fc_x(h)

    def advance(self, h: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h, c = self.lstm(self.dropout(x), h, c)
        return h, c, self.next_input(h, x)

    def pool_maps(self, valid: Tensor | None, **maps: Tensor) -> list[Tensor]:
        check_maps(self.channels, y=maps["y"], c=maps["c"])
        check_maps(self.lstm.input_size, x=maps["x"])
        return [maps[name].mean((-2, -1)) for name in self.reads]

    def start(self, means: list[Tensor], valid: Tensor | None) -> tuple[Tensor, ...]:
        return tuple(means)

    def classify(self, h: Tensor, *context: Tensor) -> Logits:
        return Logits(self.fc(self.dropout(h)))


@register_head("rolling_unrolling")
class RollingUnrollingHead(EncoderDecoderHead):
    """Reads the same feature at every step."""

    predicts_features = False

    def __init__(
        self, channels: int, *, features: int, num_classes: int, steps: int = 14, dropout: float = 0.8, extra: int = 1
    ) -> None:
        """`extra`: steps beyond the horizon, 1 in the release."""
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout)
        if type(extra) is not int or extra < 0:
            raise ConfigError(f"extra is {extra!r}; it takes a whole number from 0 on")
        self.extra = extra

    def next_input(self, h: Tensor, x: Tensor) -> Tensor:
        return x


@register_head("imagine")
class ImagineHead(EncoderDecoderHead):
    """Predicts the difference to the next feature or, without `residual`, the feature itself."""

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
        super().__init__(channels, features=features, num_classes=num_classes, steps=steps, dropout=dropout)
        self.residual = residual

    def next_input(self, h: Tensor, x: Tensor) -> Tensor:
        return x + self.fc_x(h) if self.residual else self.fc_x(h)


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
    return lstm(size, "encoder_decoder")


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
    return lstm(size, "imagine")


@register_method(
    "rulstm",
    title="RU",
    task="anticipation",
    reference="Furnari, Farinella 2019, What Would You Expect? Anticipating Egocentric Actions with Rolling-Unrolling"
    " LSTMs and Modality Attention",
    idea="one LSTM reads, another runs ahead",
    parameters="19,369,425 counted from the authors' code",
    rows={"ek55": "RU-RGB", "ek100": "RU-RGB"},
)
def rulstm(size: str) -> PredictorConfig:
    return lstm(size, "rolling_unrolling")
