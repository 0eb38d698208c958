"""DMR predicts the features of the next second from one frame, several times.

The future is uncertain, so M networks predict it, and only the closest prediction learns from the real features
(`loss.features`). The action is classified from all of them:

    f_m(x_t) = (f^1_m, ..., f^K_m) = V_m act(U_m x_t + a_m) + b_m       predicts x_{t+1} ... x_{t+K}
    y_t      = 1/M sum_m g(drop(f^K_m(x_t)))                            g the identity, or act(W f + c)

A linear classifier of this mean is the mean of the guesses' classifiers. The paper predicts the frame one second later
only; here it is each of the K steps up to it, and the last one is classified.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from horst.layers import CoreConfig, CoreStep, Memory, VectorCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class DMRConfig(CoreConfig):
    """Networks that predict features."""

    name, title = "dmr", "DMR"
    hidden: int = 1024  # units of each network's layer
    guesses: int = 3  # M, the number of networks
    ahead: int = 4  # K, how many frames are predicted: one second of four frames
    mlp: int | None = None  # units of a layer (FC, ReLU) that reads each guess, shared by all; None: no layer
    dropout: float = 0.0  # of each guess

    @property
    def about(self) -> str:
        return f"DMR, {self.guesses} guesses of the next {self.ahead} frames, {self.hidden} hidden units"


@register_core(DMRConfig)
class DMR(VectorCore):
    """It remembers nothing: the prediction depends on one frame."""

    config: DMRConfig
    predicts_features = True

    def __init__(self, config: DMRConfig) -> None:
        super().__init__(config)
        features, hidden = config.in_channels, config.hidden
        self.channels = config.mlp or features
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, config.ahead * features))
            for _ in range(config.guesses)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.mlp = None if config.mlp is None else nn.Linear(features, config.mlp)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return {}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        guesses = torch.stack([network(x) for network in self.networks], -2)  # (B, T, M, K C)
        future = guesses.unflatten(-1, (self.config.ahead, self.config.in_channels))  # (B, T, M, K, C)
        last = self.dropout(future[..., -1, :])
        if self.mlp is not None:
            last = torch.relu(self.mlp(last))
        return CoreStep({"y": last.mean(-2)}, future), {}


@register_method(
    "dmr",
    title="DMR",
    task="anticipation",
    reference="Vondrick, Pirsiavash, Torralba 2016, Anticipating Visual Representations from Unlabeled Video",
    idea="several guesses of the future",
    rows={"ek55": "DMR"},
    loss={"features": 1.0},
)
def dmr(size: str) -> PredictorConfig:
    sizes = lstm_sizes(size)
    return anticipation(size, DMRConfig(**sizes, mlp=sizes["hidden"]), dropout=0.0)
