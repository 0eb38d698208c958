"""RU, the rolling-unrolling LSTM: one LSTM reads the frames, another one runs on until the action.

Furnari, Farinella 2019, "What Would You Expect? Anticipating Egocentric Actions with Rolling-Unrolling LSTMs and
Modality Attention". The rolling LSTM is the core "lstm", this head is the unrolling one. With x_t the feature of a
frame, T frames, t counted from 0:

    (h_t, c_t) = LSTM_R(drop(x_t), h_{t-1}, c_{t-1})
    (h, c) <- (h_t, c_t), then n times   (h, c) = LSTM_U(drop(x_t), h, c)
    logits_t = W drop(h) + b

The release runs n = T - t + 1 steps, one more than there are frames until the action: that is `extra`. In pretraining
by sequence completion LSTM_U reads x_t, x_{t+1} .. x_{T-1} instead of copies of x_t: n = T - t steps, none extra.

Shapes: B batch, T frames, C channels, F features, U horizons, K steps ahead.
"""

from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.errors import ConfigError
from horst.heads import Logits, Unroll, Unroller, check_maps, register_head
from horst.heads.unrolling import select
from horst.layers import LSTMCell
from horst.models.methods.lstm import LSTMConfig
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@register_head("rolling_unrolling")
class RollingUnrollingHead(Unroller):
    """Reads h (as y), c and x of the core "lstm". Every step of every frame has its own dropout mask.

    A subclass that overrides `next_input` reads other features on the way.
    """

    reads = ("y", "c", "x")

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
        """
        Args:
            channels: Of h and c.
            features: Channels of x.
            num_classes: Actions.
            steps: Frames of a clip.
            dropout: Of the inputs of the LSTM and of the classifier.
            extra: Steps beyond the horizon, 1 in the release.
        """
        super().__init__(channels, {"action": num_classes})
        check_positive(channels=channels, features=features, steps=steps)
        check_dropout(dropout)
        if type(extra) is not int or extra < 0:
            raise ConfigError(f"extra is {extra!r}; it takes a whole number from 0 on")
        self.steps, self.extra = steps, extra
        self.dropout = nn.Dropout(dropout)
        self.lstm = LSTMCell(features, channels)
        self.fc = nn.Linear(channels, num_classes)

    def next_input(self, h: Tensor, seen: Tensor) -> Tensor:
        """The next feature (B, T, F) to read, from h (B, T, C) after the LSTM read `seen` (B, T, F)."""
        return seen

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
        """As `horst.heads.UnrollingHead`. `complete`: the LSTM reads the frames that follow, where there are any."""
        check_maps(self.channels, y=y, c=c)
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
            return h, c, self.next_input(h, seen)

        ahead, future = self.ahead((h, c, x), horizons, advance, keep=2 if self.predicts_features else None)
        action = self.fc(self.dropout(ahead))  # (B, T, U, classes)
        action = action if several else action.squeeze(2)
        if clip:
            return Logits(action, future=future)  # (B, T, K, F)
        return Logits(action.squeeze(1), future=None if future is None else future.squeeze(1))


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
    return anticipation(size, LSTMConfig(**lstm_sizes(size)), "rolling_unrolling")
