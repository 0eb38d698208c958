"""Anticipation by one linear layer: the next action alone, as RULSTM and what is compared with it predict it.

Verbs and nouns are summed from its actions where they are evaluated (`horst.evaluation.measure`).
"""

from __future__ import annotations

from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.heads.base import Head
from horst.heads.logits import Logits
from horst.heads.pool import Norm, Pool


class ActionHead(Head):
    """The mean of y_t over its places, dropout, FC."""

    def __init__(self, channels: int, *, num_classes: int, dropout: float = 0.0, norm: Norm = "none") -> None:
        super().__init__()
        check_positive(num_classes=num_classes)
        check_dropout(dropout)
        self.pool = Pool(channels, ("y",), norm)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)

    @property
    def channels(self) -> int:
        return self.fc.in_features

    @property
    def classes(self) -> dict[str, int]:
        return {"action": self.fc.out_features}

    def forward(self, *, y: Tensor, valid: Tensor | None = None) -> Logits:
        (pooled,) = self.pool(valid, y=y)
        return Logits(self.fc(self.dropout(pooled)))
