"""DMR: from one frame, the features of the frames to come, in several guesses.

Vondrick, Pirsiavash, Torralba 2016, "Anticipating Visual Representations from Unlabeled Video". The future is open: M
networks foretell it each in its own way, and only the one that came nearest learns from it (`horst.training.losses`,
"mse"). What is to come is named from all of them:

    f_m(x_t) = (f^1_m, ..., f^K_m) = V_m act(U_m x_t + a_m) + b_m       foretells x_{t+1} ... x_{t+K}
    y_t      = 1/M sum_m g(drop(f^K_m(x_t)))                            g the identity, or act(W f + c)

A linear classifier of this mean is the mean of the guesses' classifiers. In the paper only the frame one second later
is foretold; here it is each of the K steps up to it, and the farthest is read. The paper first foretells, from video
without labels, and then trains a classifier on it; here both are learnt at once. There the networks share units of
their layers at random; here they share none. As a baseline of RULSTM (Furnari, Farinella 2019), g is a layer of 1024
units with dropout 0.8. Left open there: the width of the networks.

Shapes: B batch, T frames, C channels, M guesses, K steps ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.layers import CoreConfig
from horst.layers.recurrent import CoreStep, Memory, VectorCore


@dataclass(frozen=True, kw_only=True, slots=True)
class DMRConfig(CoreConfig):
    """Networks that foretell features."""

    name: ClassVar[str] = "dmr"
    title: ClassVar[str] = "DMR"

    in_channels: int
    """Of the features."""
    hidden: int = 1024
    """Units of each network's layer."""
    guesses: int = 3
    """M, how many networks there are."""
    ahead: int = 4
    """K, how many frames are foretold: one second of four frames."""
    mlp: int | None = None
    """Units of a layer (FC, ReLU) that reads each guess, the same for all; None: there is none."""
    dropout: float = 0.0
    """Of each guess before it is read."""

    def __post_init__(self) -> None:
        check_positive(in_channels=self.in_channels, hidden=self.hidden, guesses=self.guesses, ahead=self.ahead)
        if self.mlp is not None:
            check_positive(mlp=self.mlp)
        check_dropout(self.dropout)

    @property
    def about(self) -> str:
        return f"DMR, {self.guesses} guesses of the next {self.ahead} frames, {self.hidden} hidden units"


class DMR(VectorCore):
    """It remembers nothing: every frame speaks for itself."""

    config: DMRConfig
    predicts_features = True

    def __init__(self, config: DMRConfig) -> None:
        super().__init__(config)
        features, hidden = config.in_channels, config.hidden
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, config.ahead * features))
            for _ in range(config.guesses)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.mlp = None if config.mlp is None else nn.Linear(features, config.mlp)

    @property
    def channels(self) -> int:
        return self.config.mlp or self.config.in_channels

    def memory_sizes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        return self.guess(x), {}

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        said = self.guess(x.mean((-2, -1)))
        return said._replace(maps={"y": said.maps["y"][..., None, None]}), {}

    def guess(self, x: Tensor) -> CoreStep:
        """Of frames x (..., C), however many."""
        guesses = torch.stack([network(x) for network in self.networks], -2)  # (..., M, K C)
        future = guesses.unflatten(-1, (self.config.ahead, self.config.in_channels))  # (..., M, K, C)
        last = self.dropout(future[..., -1, :])
        if self.mlp is not None:
            last = torch.relu(self.mlp(last))
        return CoreStep({"y": last.mean(-2)}, future)
