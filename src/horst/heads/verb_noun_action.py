"""Action anticipation (appendix, "Anticipation"): verb, noun and action of what comes next.

Shapes: B batch, T frames, C channels, H x W map.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from horst.config import check_type
from horst.heads.base import Head, Logits, check_parts, register_head
from horst.heads.pool import MapPool, Norm

Form = Literal["paper", "released"]


@register_head("verb_noun_action")
class VerbNounActionHead(Head):
    """logit_a = FC_a([e; y; STATT]); the action's logits are an input of verb (with STATT) and noun (with e).

    In the form "paper", FC_v(chi_v + FC_a2v(logit_a)). In the form "released", FC_v(chi_v) + FC_a2v(logit_a), and FC_a
    reads [y; e; STATT].

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
    ) -> None:
        parts = check_parts(num_verbs, num_nouns)
        super().__init__(channels, {"action": num_classes, **parts})
        check_type("form", form, Form)
        self.form = form
        self.pool = MapPool(channels, ("y", "e", "statt"), norm)
        self.fc_a = nn.Linear(3 * channels, num_classes)
        if parts:
            verbs, nouns = parts["verb"], parts["noun"]
            self.fc_v = nn.Linear(channels, verbs)
            self.fc_n = nn.Linear(channels, nouns)
            self.fc_a2v = nn.Linear(num_classes, channels if form == "paper" else verbs)
            self.fc_a2n = nn.Linear(num_classes, channels if form == "paper" else nouns)

    def forward(self, *, y: Tensor, e: Tensor, statt: Tensor, valid: Tensor | None = None) -> Logits:
        y, e, statt = self.pool(valid, y=y, e=e, statt=statt)
        action = self.fc_a(torch.cat([y, e, statt] if self.form == "released" else [e, y, statt], -1))
        if "verb" not in self.classes:
            return Logits(action)
        if self.form == "released":
            return Logits(action, self.fc_v(statt) + self.fc_a2v(action), self.fc_n(e) + self.fc_a2n(action))
        return Logits(action, self.fc_v(statt + self.fc_a2v(action)), self.fc_n(e + self.fc_a2n(action)))
