"""Action anticipation (appendix, "Anticipation"): verb, noun and action of what comes next.

Shapes as in `recognition`; A actions.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from horst.config import check_positive, check_type
from horst.heads.base import Head, check_parts
from horst.heads.logits import Logits
from horst.heads.pool import Norm, Pool

Form = Literal["paper", "released"]


def check_head(form: str, **sizes: int) -> None:
    check_type("form", form, Form)
    check_positive(**sizes)


class VerbNounActionHead(Head):
    """logit_a = FC_a([e; y; STATT]); the action's logits inform those of verb (from STATT) and noun (from e).

    In the form "paper" they do so inside, FC_v(chi_v + FC_a2v(logit_a)); in the form "released" outside,
    FC_v(chi_v) + FC_a2v(logit_a), and FC_a reads [y; e; STATT].

    Without `num_verbs` and `num_nouns` FC_a is all there is, for data with labels of the action alone.
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
    ) -> None:
        super().__init__()
        check_head(form, num_classes=num_classes)
        self.form, self._channels, self.parts = form, channels, check_parts(num_verbs, num_nouns)
        self.pool = Pool(channels, ("y", "e", "statt"), norm)
        self.fc_a = nn.Linear(3 * channels, num_classes)
        if self.parts:
            verbs, nouns = self.parts["verb"], self.parts["noun"]
            self.fc_v = nn.Linear(channels, verbs)
            self.fc_n = nn.Linear(channels, nouns)
            self.fc_a2v = nn.Linear(num_classes, channels if form == "paper" else verbs)
            self.fc_a2n = nn.Linear(num_classes, channels if form == "paper" else nouns)

    @property
    def channels(self) -> int:
        return self._channels

    @property
    def classes(self) -> dict[str, int]:
        return {"action": self.fc_a.out_features, **self.parts}

    def forward(self, *, y: Tensor, e: Tensor, statt: Tensor, valid: Tensor | None = None) -> Logits:
        y, e, statt = self.pool(valid, y=y, e=e, statt=statt)
        seen = [y, e, statt] if self.form == "released" else [e, y, statt]
        action = self.fc_a(torch.cat(seen, -1))
        if not self.parts:
            return Logits(action)
        if self.form == "released":
            return Logits(action, self.fc_v(statt) + self.fc_a2v(action), self.fc_n(e) + self.fc_a2n(action))
        return Logits(action, self.fc_v(statt + self.fc_a2v(action)), self.fc_n(e + self.fc_a2n(action)))
