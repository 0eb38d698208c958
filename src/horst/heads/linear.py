"""Heads of one linear layer: the current action (early recognition) or the next one (anticipation)."""

from torch import Tensor, nn

from horst.config import check_dropout
from horst.heads.base import Head, Logits, register_head
from horst.heads.pool import MapPool, Norm


@register_head("action")
class ActionHead(Head):
    """The next action only, as RULSTM and the methods compared with it predict it: mean of y_t, dropout, FC.

    Verbs and nouns are summed from the actions when they are evaluated (`horst.evaluation.measure`).
    """

    def __init__(self, channels: int, *, num_classes: int, dropout: float = 0.0, norm: Norm = "none") -> None:
        super().__init__(channels, {"action": num_classes})
        check_dropout(dropout)
        self.pool = MapPool(channels, ("y",), norm)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, *, y: Tensor, valid: Tensor | None = None) -> Logits:
        (pooled,) = self.pool(valid, y=y)
        return Logits(self.fc(self.dropout(pooled)))


@register_head("recognition")
class RecognitionHead(ActionHead):
    """Early recognition (appendix): mean of y_t, FC. There are logits at every frame; training uses the last one."""

    task = "recognition"

    def __init__(self, channels: int, *, num_classes: int, norm: Norm = "none") -> None:
        super().__init__(channels, num_classes=num_classes, norm=norm)
