"""Verbs and nouns are learnt through the actions that have them: Furnari, Battiato, Farinella 2018, "Leveraging
Uncertainty to Rethink Loss Functions and Evaluation Measures for Egocentric Action Anticipation" (VNMCE).

    L_verb = -log sum_{a with verb v} p(a),  L_noun = -log sum_{a with noun n} p(a)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.heads.marginal import marginal_logits


def marginal_cross_entropy(
    action_logits: Tensor, pairs: Tensor, verb: Tensor, noun: Tensor, verbs: int, nouns: int
) -> tuple[Tensor, Tensor]:
    """The losses (...) of verbs and of nouns; 0 where a label is unknown.

    Args:
        action_logits: (..., A)
        pairs: (A, 2) int64, verb and noun of each action.
        verb: (...) true verbs.
        noun: (...) true nouns.
        verbs: How many there are.
        nouns: How many there are.
    """
    by_verb, by_noun = marginal_logits(action_logits, pairs, verbs, nouns)
    return _cross_entropy(by_verb, verb), _cross_entropy(by_noun, noun)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    flat = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=UNKNOWN, reduction="none"
    )
    return flat.view(labels.shape)
