"""Action anticipation (appendix, "Anticipation"): verb, noun and action of what comes next.

Shapes as in `recognition`; A actions.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from horst.heads.base import Head
from horst.heads.logits import Logits
from horst.heads.pool import Norm, Pool
from horst.registry import check_positive, check_type

Form = Literal["paper", "released"]


def check_head(form: str, **sizes: int) -> None:
    check_type("form", form, Form)
    check_positive(**sizes)


class VerbNounActionHead(Head):
    """logit_a = FC_a([e; y; STATT]); the action's logits inform those of verb (from STATT) and noun (from e).

    In the form "paper" they do so inside, FC_v(chi_v + FC_a2v(logit_a)); in the form "released" outside,
    FC_v(chi_v) + FC_a2v(logit_a), and FC_a reads [y; e; STATT].
    """

    reads = ("y", "e", "statt")

    def __init__(
        self,
        channels: int,
        *,
        num_actions: int,
        num_verbs: int,
        num_nouns: int,
        form: Form = "paper",
        norm: Norm = "none",
    ) -> None:
        super().__init__()
        check_head(form, num_actions=num_actions, num_verbs=num_verbs, num_nouns=num_nouns)
        self.form = form
        self.pool = Pool(channels, ("y", "e", "statt"), norm)
        self.fc_a = nn.Linear(3 * channels, num_actions)
        self.fc_v = nn.Linear(channels, num_verbs)
        self.fc_n = nn.Linear(channels, num_nouns)
        self.fc_a2v = nn.Linear(num_actions, channels if form == "paper" else num_verbs)
        self.fc_a2n = nn.Linear(num_actions, channels if form == "paper" else num_nouns)

    @property
    def channels(self) -> int:
        return self.fc_v.in_features

    @property
    def classes(self) -> dict[str, int]:
        return {task: fc.out_features for task, fc in (("action", self.fc_a), ("verb", self.fc_v), ("noun", self.fc_n))}

    def forward(self, *, y: Tensor, e: Tensor, statt: Tensor, valid: Tensor | None = None) -> Logits:
        y, e, statt = self.pool(valid, y=y, e=e, statt=statt)
        if self.form == "released":
            action = self.fc_a(torch.cat([y, e, statt], -1))
            return Logits(action, self.fc_v(statt) + self.fc_a2v(action), self.fc_n(e) + self.fc_a2n(action))
        action = self.fc_a(torch.cat([e, y, statt], -1))
        return Logits(action, self.fc_v(statt + self.fc_a2v(action)), self.fc_n(e + self.fc_a2n(action)))
