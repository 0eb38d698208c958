"""Heads of linear layers: the current action (early recognition), or the next action, verb and noun (anticipation).

Shapes: B batch, T frames, C channels, H x W map.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from horst.config import check_dropout, check_type
from horst.heads.base import Head, Logits, count_classes, register_head
from horst.heads.pool import MapPool, Norm

Form = Literal["paper", "released"]


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

    def __init__(self, channels: int, *, num_classes: int, dropout: float = 0.0, norm: Norm = "none") -> None:
        super().__init__(channels, num_classes=num_classes, dropout=dropout, norm=norm)


@register_head("verb_noun_action")
class VerbNounActionHead(Head):
    """logit_a = FC_a([e; y; STATT]); the action's logits are an input of verb (with STATT) and noun (with e).

    In the form "paper" (appendix, "Anticipation"), FC_v(chi_v + FC_a2v(logit_a)). In the form "released", FC_v(chi_v) +
    FC_a2v(logit_a), and FC_a reads [y; e; STATT].

    Without `num_verbs` and `num_nouns` there is only FC_a, for data with action labels only.
    """

    reads = ("y", "e", "statt")
    classifiers = ("fc_a", "fc_v", "fc_n", "fc_a2v", "fc_a2n")

    def __init__(
        self,
        channels: int,
        *,
        num_classes: int,
        num_verbs: int | None = None,
        num_nouns: int | None = None,
        form: Form = "paper",
        norm: Norm = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(channels, count_classes(num_classes, num_verbs, num_nouns))
        check_type("form", form, Form)
        check_dropout(dropout)
        self.form, self.dropout = form, nn.Dropout(dropout)
        self.pool = MapPool(channels, self.reads, norm)
        self.fc_a = nn.Linear(3 * channels, num_classes)
        if "verb" in self.classes:
            verbs, nouns = self.classes["verb"], self.classes["noun"]
            self.fc_v, self.fc_n = nn.Linear(channels, verbs), nn.Linear(channels, nouns)
            self.fc_a2v = nn.Linear(num_classes, channels if form == "paper" else verbs)
            self.fc_a2n = nn.Linear(num_classes, channels if form == "paper" else nouns)

    def forward(self, *, y: Tensor, e: Tensor, statt: Tensor, valid: Tensor | None = None) -> Logits:
        y, e, statt = map(self.dropout, self.pool(valid, y=y, e=e, statt=statt))
        action = self.fc_a(torch.cat([y, e, statt] if self.form == "released" else [e, y, statt], -1))
        if "verb" not in self.classes:
            return Logits(action)
        if self.form == "released":
            return Logits(action, self.fc_v(statt) + self.fc_a2v(action), self.fc_n(e) + self.fc_a2n(action))
        return Logits(action, self.fc_v(statt + self.fc_a2v(action)), self.fc_n(e + self.fc_a2n(action)))
