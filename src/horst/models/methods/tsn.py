"""TSN on the last second: each frame is classified by itself, and the scores are averaged.

Wang, Xiong, Wang, Qiao, Lin, Tang, Van Gool 2016, "Temporal Segment Networks: Towards Good Practices for Deep Action
Recognition". With the last S frames, and f the identity or act(W x + b):

    y_t = 1/S sum_{s=0}^{S-1} f(drop(x_{t-s}))

A linear classifier of this mean is the mean of the frames' classifiers. At the start of a stream the mean is over the
frames so far. ATSN, VN-CE, MCE and VNMCE (`verb_noun.py`) and SVM-TOPk use this core, with other heads and losses.

Shapes: B batch, T frames, C channels, N frames of a window.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from horst.layers import CoreConfig, CoreStep, WindowCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method


@dataclass(frozen=True, kw_only=True, slots=True)
class TSNConfig(CoreConfig):
    """The consensus of the last frames."""

    name: ClassVar[str] = "tsn"
    title: ClassVar[str] = "TSN"

    hidden: int | None = None
    """Units of a layer (FC, ReLU) on each frame before the consensus; None: no layer."""
    segments: int = 4
    """S, the frames of the consensus."""
    dropout: float = 0.0
    """Of each frame's features."""

    @property
    def about(self) -> str:
        layer = "" if self.hidden is None else f" after a layer of {self.hidden} units"
        return f"TSN, the mean of the last {self.segments} frames{layer}"


@register_core(TSNConfig)
class TSN(WindowCore):
    """y_t = mean over the last frames of f(drop(x))."""

    config: TSNConfig

    def __init__(self, config: TSNConfig) -> None:
        super().__init__(config)
        self.window, self.channels = config.segments, config.hidden or config.in_channels
        self.dropout = nn.Dropout(config.dropout)
        self.layer = None if config.hidden is None else nn.Linear(config.in_channels, config.hidden)
        # without the layer there is no parameter that has the device and precision of the core
        self.register_buffer("_like", torch.empty(0), persistent=False)

    @property
    def remembered(self) -> int:
        return self.channels

    def prepare(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        return x if self.layer is None else torch.relu(self.layer(x))

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        return CoreStep({"y": window.sum(-2) / age.unsqueeze(-1)})


def tsn_core(size: str) -> TSNConfig:
    return TSNConfig(in_channels=lstm_sizes(size)["in_channels"], hidden=256 if size == "tiny" else None)


_CARD: dict[str, Any] = {
    "task": "anticipation",
    "reference": "Berrada, Zisserman, Kumar 2018, Smooth Loss Functions for Deep Top-k Classification",
    "idea": "correct among k is enough",
}


@register_method(
    "svm_top5", title="SVM-TOP5", rows={"ek55": "SVM-TOP5"}, loss={"name": "smooth_top_k", "k": 5}, **_CARD
)
@register_method(
    "svm_top3", title="SVM-TOP3", rows={"ek55": "SVM-TOP3"}, loss={"name": "smooth_top_k", "k": 3}, **_CARD
)
def tsn(size: str) -> PredictorConfig:
    return anticipation(size, tsn_core(size))
