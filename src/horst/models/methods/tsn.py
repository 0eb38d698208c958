"""TSN on the last second, for SVM-TOPk, ATSN, VN-CE, MCE and VNMCE, which have other heads and losses.

Each frame is classified by itself, and the scores are averaged: Wang et al. 2016, "Temporal Segment Networks: Towards
Good Practices for Deep Action Recognition". With the last S frames, and f the identity or act(W x + b):

    y_t = 1/S sum_{s=0}^{S-1} f(drop(x_{t-s}))

A linear classifier of this mean is the mean of the frames' classifiers. At the start of a stream the mean is over the
frames so far.

ATSN and VN-CE learn verbs and nouns separately: log p(a) = log p(verb of a) + log p(noun of a). MCE and VNMCE learn
actions: p(v) = sum_{a with verb v} p(a), nouns likewise. Cross-entropy of these verbs and nouns is marginal
cross-entropy, -log sum_{a with verb v} p(a). Their heads take `pairs`, verb and noun of every action, from the data,
with the number of verbs and nouns. Without the three they are one linear layer to actions, trained by cross-entropy.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_dropout
from horst.errors import ConfigError
from horst.heads import Head, Logits, register_head
from horst.heads.base import count_classes
from horst.heads.pool import MapPool, Norm
from horst.layers import CoreConfig, CoreStep, WindowCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import anticipation, lstm_sizes, register_method

Pairs = Sequence[Sequence[int]]
NEVER = math.log(torch.finfo(torch.float32).tiny)  # the logit of a class without any action; finite


@dataclass(frozen=True, kw_only=True, slots=True)
class TSNConfig(CoreConfig):
    """The consensus of the last frames."""

    name, title = "tsn", "TSN"
    hidden: int | None = None  # units of a layer (FC, ReLU) on each frame before the consensus; None: no layer
    segments: int = 4  # S, the frames of the consensus
    dropout: float = 0.0  # of each frame's features

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
        self.window = config.segments
        self.channels = self.remembered = config.hidden or config.in_channels
        self.dropout = nn.Dropout(config.dropout)
        self.layer = None if config.hidden is None else nn.Linear(config.in_channels, config.hidden)
        # without the layer there is no parameter that has the device and precision of the core
        self.register_buffer("_like", torch.empty(0), persistent=False)

    def prepare(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        return x if self.layer is None else torch.relu(self.layer(x))

    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        return CoreStep({"y": window.sum(-2) / age.unsqueeze(-1)})


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

    learnt: ClassVar[tuple[str, ...]]  # the tasks that have a linear layer, if there are verbs and nouns
    pairs: Tensor  # (A, 2) int64: verb and noun of every action; (0, 2) without verbs and nouns

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


def tsn(size: str, head: str = "action") -> PredictorConfig:
    core = TSNConfig(in_channels=lstm_sizes(size)["in_channels"], hidden=256 if size == "tiny" else None)
    return anticipation(size, core, head)


def atsn(size: str) -> PredictorConfig:
    return tsn(size, "verb_noun")


def mce(size: str) -> PredictorConfig:
    return tsn(size, "marginal")


_BERRADA = "Berrada, Zisserman, Kumar 2018, Smooth Loss Functions for Deep Top-k Classification"
_DAMEN = "Damen et al. 2018, Scaling Egocentric Vision: The EPIC-KITCHENS Dataset"
_FURNARI = (
    "Furnari, Battiato, Farinella 2018, Leveraging Uncertainty to Rethink Loss Functions and Evaluation Measures for "
    "Egocentric Action Anticipation"
)
_VERBS_NOUNS = {"tasks": ["verb", "noun"]}
_METHODS: tuple[tuple[Any, str, str, str, str, dict[str, Any]], ...] = (
    (tsn, "svm_top3", "SVM-TOP3", _BERRADA, "correct among k is enough", {"name": "smooth_top_k", "k": 3}),
    (tsn, "svm_top5", "SVM-TOP5", _BERRADA, "correct among k is enough", {"name": "smooth_top_k", "k": 5}),
    (atsn, "atsn", "ATSN", _DAMEN, "verb and noun learnt separately", _VERBS_NOUNS),
    (atsn, "vn_ce", "VN-CE", _DAMEN, "verb and noun by cross-entropy", _VERBS_NOUNS),
    (mce, "mce", "MCE", _FURNARI, "verbs are sums of actions", {}),
    (mce, "vnmce_t3", "VNMCE+T3", _FURNARI, "the best rivals do not count", {"name": "truncated_top_k", "k": 3}),
    (mce, "vnmce_t5", "VNMCE+T5", _FURNARI, "the best rivals do not count", {"name": "truncated_top_k", "k": 5}),
)
for _model, _name, _title, _reference, _idea, _loss in _METHODS:
    _card = {"title": _title, "reference": _reference, "idea": _idea, "rows": {"ek55": _title}, "loss": _loss}
    register_method(_name, task="anticipation", **_card)(_model)
