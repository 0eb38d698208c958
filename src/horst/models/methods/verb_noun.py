"""Heads that know that an action is a verb with a noun, for ATSN, VN-CE, MCE and VNMCE.

Damen et al. 2018, "Scaling Egocentric Vision: The EPIC-KITCHENS Dataset" (ATSN; VN-CE): verbs and nouns are learnt
apart, and log p(a) = log p(verb of a) + log p(noun of a).

Furnari, Battiato, Farinella 2018, "Leveraging Uncertainty to Rethink Loss Functions and Evaluation Measures for
Egocentric Action Anticipation" (MCE; VNMCE): actions are learnt, and p(v) = sum_{a with verb v} p(a), nouns likewise.
Cross-entropy of these verbs and nouns is marginal cross-entropy.

`pairs` tells verb and noun of every action; it comes with the number of verbs and of nouns, from the data. Without the
three, both heads are one linear layer to actions: for data without verbs and nouns, trained by plain cross-entropy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.errors import ConfigError
from horst.heads.base import Head, check_parts
from horst.heads.logits import Logits
from horst.heads.marginal import marginal_logits
from horst.heads.pool import Norm, Pool

Pairs = Sequence[Sequence[int]]


def check_pairs(pairs: Pairs, actions: int, verbs: int, nouns: int) -> list[list[int]]:
    """Verb and noun of every action, which must be given: no rule can tell them."""
    given: Any = pairs
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError(f"pairs is {given!r}; it takes a list with [verb, noun] of every action")
    if len(given) != actions:
        raise ConfigError(f"pairs has {len(given)} entries and there are {actions} actions: give [verb, noun] of each")
    for i, pair in enumerate(given):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ConfigError(f"pairs[{i}] is {pair!r}; it takes [verb, noun]")
        for what, value, classes in zip(("verb", "noun"), pair, (verbs, nouns), strict=True):
            if type(value) is not int or not 0 <= value < classes:
                raise ConfigError(f"pairs[{i}] has the {what} {value!r}; there are 0 to {classes - 1}")
    return [list(pair) for pair in given]


class PairHead(Head):
    """The mean of y_t over its places, dropout, and scores of verb, noun and action that fit together.

    Without `num_verbs`, `num_nouns` and `pairs`: scores of the action alone.
    """

    learnt: ClassVar[tuple[str, ...]]
    """The tasks that have a linear layer of their own, where there are verbs and nouns."""
    pairs: Tensor
    """(A, 2) int64: verb and noun of every action; (0, 2) where there are none."""

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
        super().__init__()
        check_positive(num_classes=num_classes)
        check_dropout(dropout)
        counts = check_parts(num_verbs, num_nouns)
        self._classes = {"action": num_classes, **counts}
        if pairs and not counts:
            raise ConfigError("pairs is given without num_verbs and num_nouns: give all three, or none")
        table = check_pairs(pairs, num_classes, counts["verb"], counts["noun"]) if counts else []
        shaped = torch.tensor(table, dtype=torch.int64).reshape(-1, 2)
        self.register_buffer("pairs", shaped, persistent=False)  # the config has them
        self.pool = Pool(channels, ("y",), norm)
        self.dropout = nn.Dropout(dropout)
        layers = self.learnt if counts else ("action",)
        self.fc = nn.ModuleDict({task: nn.Linear(channels, self._classes[task]) for task in layers})

    @property
    def channels(self) -> int:
        return self.pool.channels

    @property
    def classes(self) -> dict[str, int]:
        return dict(self._classes)

    def forward(self, *, y: Tensor, valid: Tensor | None = None) -> Logits:
        (pooled,) = self.pool(valid, y=y)
        x = self.dropout(pooled)
        return self.score(x) if len(self._classes) > 1 else Logits(self.fc["action"](x))

    @abstractmethod
    def score(self, x: Tensor) -> Logits:
        """Of features (..., C), where there are verbs and nouns."""


class MarginalHead(PairHead):
    """FC to actions; verbs and nouns are as likely as all their actions."""

    learnt = ("action",)

    def score(self, x: Tensor) -> Logits:
        action = self.fc["action"](x)
        return Logits(action, *marginal_logits(action, self.pairs, self.classes["verb"], self.classes["noun"]))


class VerbNounHead(PairHead):
    """FC to verbs and FC to nouns; an action is as likely as its verb and its noun, each for itself."""

    learnt = ("verb", "noun")

    def score(self, x: Tensor) -> Logits:
        verb, noun = self.fc["verb"](x), self.fc["noun"](x)
        by_verb = F.log_softmax(verb, -1).index_select(-1, self.pairs[:, 0])
        by_noun = F.log_softmax(noun, -1).index_select(-1, self.pairs[:, 1])
        return Logits(by_verb + by_noun, verb, noun)
