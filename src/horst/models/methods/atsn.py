"""TSN on the part that was observed.

Wang, Xiong, Wang, Qiao, Lin, Tang, Van Gool 2016, "Temporal Segment Networks: Towards Good Practices for Deep Action
Recognition": each of a few frames is classified alone, and their scores are averaged (the consensus). Damen et al.
2018, "Scaling Egocentric Vision: The EPIC-KITCHENS Dataset", anticipate with it (ATSN): the frames are those of the
last second. With S of them, and f the identity or act(W x + b),

    y_t = 1/S sum_{s=0}^{S-1} f(drop(x_{t-s}))

A linear classifier of this mean is the mean of the frames' classifiers. ATSN, VN-CE, MCE, VNMCE, SVM-TOPk and their
kin are this core with other heads (`horst.models.methods.verb_noun`) and losses. At the start of a stream the mean is
over the frames that there are. Left open by the papers: how many of the frames of that second are taken.

Shapes: B batch, T frames, C channels, N frames of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.layers import CoreConfig, CoreStep, WindowCore


@dataclass(frozen=True, kw_only=True, slots=True)
class TSNConfig(CoreConfig):
    """The consensus of the last frames."""

    name: ClassVar[str] = "tsn"
    title: ClassVar[str] = "TSN"

    in_channels: int
    """Of the features."""
    hidden: int | None = None
    """Units of a layer (FC, ReLU) on each frame before the consensus; None: there is none."""
    segments: int = 4
    """S, the frames that the consensus is of."""
    dropout: float = 0.0
    """Of each frame's features."""

    def __post_init__(self) -> None:
        check_positive(in_channels=self.in_channels, segments=self.segments)
        if self.hidden is not None:
            check_positive(hidden=self.hidden)
        check_dropout(self.dropout)

    @property
    def about(self) -> str:
        layer = "" if self.hidden is None else f" after a layer of {self.hidden} units"
        return f"TSN, the mean of the last {self.segments} frames{layer}"


class TSN(WindowCore):
    """y_t = mean over the last frames of f(drop(x))."""

    config: TSNConfig

    def __init__(self, config: TSNConfig) -> None:
        super().__init__(config)
        self.window = config.segments
        self.dropout = nn.Dropout(config.dropout)
        self.layer = None if config.hidden is None else nn.Linear(config.in_channels, config.hidden)
        # without the layer there is no parameter that says on which device and in which precision the core is
        self.register_buffer("_like", torch.empty(0), persistent=False)

    @property
    def channels(self) -> int:
        return self.config.hidden or self.config.in_channels

    @property
    def remembered(self) -> int:
        return self.channels

    def prepare(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        return x if self.layer is None else torch.relu(self.layer(x))

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        return CoreStep({"y": window.sum(-2) / age.unsqueeze(-1)})
