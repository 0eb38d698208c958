"""Heads that use the verb and the noun of every action, for ATSN, VN-CE, MCE and VNMCE.

ATSN and VN-CE learn verbs and nouns separately: log p(a) = log p(verb of a) + log p(noun of a). MCE and VNMCE learn
actions: p(v) = sum_{a with verb v} p(a), nouns likewise. Cross-entropy of these verbs and nouns is marginal
cross-entropy, -log sum_{a with verb v} p(a).

`pairs` has verb and noun of every action. It comes from the data, with the number of verbs and nouns. Without the three
both heads are one linear layer to actions, trained by cross-entropy.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_dropout
from horst.errors import ConfigError
from horst.heads import Head, Logits, register_head
from horst.heads.base import count_classes
from horst.heads.pool import MapPool, Norm
from horst.models.methods.tsn import tsn_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, register_method

Pairs = Sequence[Sequence[int]]
NEVER = math.log(torch.finfo(torch.float32).tiny)
"""The logit of a class without any action: practically impossible, but finite."""


def check_pairs(pairs: Pairs, action: int, verb: int, noun: int) -> list[list[int]]:
    """Verb and noun of every action, checked; the others are numbers of classes."""
    given: Any = pairs
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError(f"pairs is {given!r}; it takes a list with [verb, noun] of every action")
    if len(given) != action:
        raise ConfigError(f"pairs has {len(given)} entries and there are {action} actions: give [verb, noun] of each")
    for i, pair in enumerate(given):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ConfigError(f"pairs[{i}] is {pair!r}; it takes [verb, noun]")
        for what, value, classes in zip(("verb", "noun"), pair, (verb, noun), strict=True):
            if type(value) is not int or not 0 <= value < classes:
                raise ConfigError(f"pairs[{i}] has the {what} {value!r}; there are 0 to {classes - 1}")
    return [list(pair) for pair in given]


class PairHead(Head):
    """The mean of y_t, dropout, and consistent scores of verb, noun and action.

    Without `num_verbs`, `num_nouns` and `pairs`: scores of the action only.
    """

    learnt: ClassVar[tuple[str, ...]]
    """The tasks that have a linear layer, if there are verbs and nouns."""
    pairs: Tensor
    """(A, 2) int64: verb and noun of every action; (0, 2) without verbs and nouns."""

    def __init__(
        self,
        channels: int,
        *,
        num_classes: int,
        num_verbs: int | None = None,
        num_nouns: int | None = None,
        pairs: Pairs = (),
        dropout: float = 0.0,
        norm: Norm = "none",
    ) -> None:
        super().__init__(channels, count_classes(num_classes, num_verbs, num_nouns))
        check_dropout(dropout)
        parts = "verb" in self.classes
        if pairs and not parts:
            raise ConfigError("pairs is given without num_verbs and num_nouns: give all three, or none")
        table = check_pairs(pairs, **self.classes) if parts else []
        shaped = torch.tensor(table, dtype=torch.int64).reshape(-1, 2)
        self.register_buffer("pairs", shaped, persistent=False)  # they are in the config
        self.pool = MapPool(channels, ("y",), norm)
        self.dropout = nn.Dropout(dropout)
        layers = self.learnt if parts else ("action",)
        self.fc = nn.ModuleDict({task: nn.Linear(channels, self.classes[task]) for task in layers})

    def forward(self, *, y: Tensor, valid: Tensor | None = None) -> Logits:
        (pooled,) = self.pool(valid, y=y)
        x = self.dropout(pooled)
        return self.score(x) if len(self.classes) > 1 else Logits(self.fc["action"](x))

    @abstractmethod
    def score(self, x: Tensor) -> Logits:
        """The scores for features (..., C), if there are verbs and nouns."""


def marginal_logits(action_logits: Tensor, pairs: Tensor, verbs: int, nouns: int) -> tuple[Tensor, Tensor]:
    """The log-probabilities of verbs (..., V) and nouns (..., N), from logits (..., A) and the pairs (A, 2).

    A verb or noun without actions gets the logit `NEVER` and no gradient.
    """
    actions = F.log_softmax(action_logits, -1)
    return _log_sums(actions, pairs[:, 0], verbs), _log_sums(actions, pairs[:, 1], nouns)


def _log_sums(actions: Tensor, group: Tensor, groups: int) -> Tensor:
    """log sum_{a in group} exp(actions_a) for each group, relative to its largest entry."""
    with torch.no_grad():
        most = actions.new_zeros((*actions.shape[:-1], groups))
        most = most.scatter_reduce(-1, group.expand(actions.shape), actions, "amax", include_self=False)
    parts = torch.exp(actions - most.index_select(-1, group))
    total = torch.zeros_like(most).index_add(-1, group, parts)
    empty = torch.ones(groups, dtype=torch.bool, device=group.device).index_fill(0, group, False)
    return torch.where(empty, NEVER, torch.where(empty, 1.0, total).log() + most)


@register_head("marginal")
class MarginalHead(PairHead):
    """FC to actions; the probability of a verb or noun is the sum over its actions."""

    learnt = ("action",)

    def score(self, x: Tensor) -> Logits:
        action = self.fc["action"](x)
        return Logits(action, *marginal_logits(action, self.pairs, self.classes["verb"], self.classes["noun"]))


@register_head("verb_noun")
class VerbNounHead(PairHead):
    """FC to verbs and FC to nouns; the probability of an action is the product of both."""

    learnt = ("verb", "noun")

    def score(self, x: Tensor) -> Logits:
        verb, noun = self.fc["verb"](x), self.fc["noun"](x)
        by_verb = F.log_softmax(verb, -1).index_select(-1, self.pairs[:, 0])
        by_noun = F.log_softmax(noun, -1).index_select(-1, self.pairs[:, 1])
        return Logits(by_verb + by_noun, verb, noun)


_VERBS_NOUNS: dict[str, Any] = {
    "task": "anticipation",
    "reference": "Damen et al. 2018, Scaling Egocentric Vision: The EPIC-KITCHENS Dataset",
    "loss": {"tasks": ["verb", "noun"]},
}
_MARGINAL: dict[str, Any] = {
    "task": "anticipation",
    "reference": "Furnari, Battiato, Farinella 2018, Leveraging Uncertainty to Rethink Loss Functions and Evaluation"
    " Measures for Egocentric Action Anticipation",
}
_TRUNCATED: dict[str, Any] = {**_MARGINAL, "idea": "the best rivals do not count"}


@register_method("vn_ce", title="VN-CE", idea="verb and noun by cross-entropy", rows={"ek55": "VN-CE"}, **_VERBS_NOUNS)
@register_method("atsn", title="ATSN", idea="verb and noun learnt separately", rows={"ek55": "ATSN"}, **_VERBS_NOUNS)
def atsn(size: str) -> PredictorConfig:
    return anticipation(size, tsn_core(size), "verb_noun")


@register_method(
    "vnmce_t5", title="VNMCE+T5", rows={"ek55": "VNMCE+T5"}, loss={"name": "truncated_top_k", "k": 5}, **_TRUNCATED
)
@register_method(
    "vnmce_t3", title="VNMCE+T3", rows={"ek55": "VNMCE+T3"}, loss={"name": "truncated_top_k", "k": 3}, **_TRUNCATED
)
@register_method("mce", title="MCE", idea="verbs are sums of actions", rows={"ek55": "MCE"}, **_MARGINAL)
def mce(size: str) -> PredictorConfig:
    return anticipation(size, tsn_core(size), "marginal")
