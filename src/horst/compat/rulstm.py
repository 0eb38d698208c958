"""Checkpoints of one branch of RULSTM's release (github.com/fpv-iplab/rulstm): the core "lstm" and an unrolling head.

Its LSTMs have the parameter names of torch's `nn.LSTM`, its classifier is a dropout and a linear layer.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from horst.compat.official import check_keys, without_wrapper
from horst.errors import CheckpointError, InputError
from horst.models.methods.lstm import LSTM, LSTMConfig
from horst.models.methods.rulstm import RollingUnrollingHead
from horst.registry import Part
from horst.weights import load_checked

# Our names to theirs.
NAMES = {
    f"{ours}.{p}_{g}": f"{theirs}.{p}_{g}_l0"
    for ours, theirs in (("core.layers.0", "rolling_lstm.lstm"), ("head.lstm", "unrolling_lstm"))
    for p in ("weight", "bias")
    for g in ("ih", "hh")
} | {f"head.fc.{p}": f"classifier.1.{p}" for p in ("weight", "bias")}
DROPOUT = 0.8  # dropout of the release in all three places; no parameter shows it, and it matters for further training


class RollingUnrolling(nn.Module):
    """The release's branch on vectors: features (B, T, F) -> logits (B, T, classes)."""

    def __init__(self, core: LSTM, head: RollingUnrollingHead) -> None:
        super().__init__()
        self.core, self.head = core, head

    def forward(self, features: Tensor, *, complete: bool = False) -> Tensor:
        """Frame t of T is unrolled T - t + 1 steps. `complete`: sequence completion, over the T - t next frames."""
        if features.ndim != 3:
            raise InputError(f"the features have shape {tuple(features.shape)}; it must be (B, T, F)")
        out, _ = self.core(features[..., None, None])
        read = {name: out.named(name) for name in self.head.reads}
        return self.head(**read, unroll=list(range(features.shape[1], 0, -1)), complete=complete).action


def rulstm_from_official(state_dict: Mapping[str, Tensor]) -> RollingUnrolling:
    """A branch, from the official parameter names (`rolling_lstm.lstm.weight_ih_l0`, ...), in evaluation mode.

    Its `core` and `head` can be used in a `Predictor`.
    """
    weights = without_wrapper(state_dict)
    check_keys(weights, list(NAMES.values()), [])
    sized = ("rolling_lstm.lstm.weight_ih_l0", "classifier.1.weight")
    for key in sized:
        if weights[key].ndim != 2 or 0 in weights[key].shape:
            raise CheckpointError(f"{key!r} has shape {tuple(weights[key].shape)}; it must have two axes, none empty")
    (_, features), (classes, hidden) = (weights[key].shape for key in sized)
    core = LSTM(LSTMConfig(in_channels=features, hidden=hidden, dropout=DROPOUT))
    options = {"num_classes": classes, "dropout": DROPOUT}
    head = RollingUnrollingHead(hidden, features=features, **options)  # type: ignore[arg-type]
    head.made_from = Part(name="rolling_unrolling", options=options)
    model = RollingUnrolling(core, head)
    load_checked(model, {ours: weights[theirs] for ours, theirs in NAMES.items()}, source="RULSTM's checkpoint")
    return model.eval()
