"""Verb and noun probabilities as sums over actions: an action is a verb with a noun.

Furnari, Battiato, Farinella 2018, "Leveraging Uncertainty to Rethink Loss Functions and Evaluation Measures for
Egocentric Action Anticipation": p(v) = sum_{a with verb v} p(a), and likewise for nouns. Cross-entropy of these logits
is therefore their marginal cross-entropy, -log sum_{a with verb v} p(a).

Shapes: A actions, V verbs, N nouns.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

NEVER = math.log(torch.finfo(torch.float32).tiny)
"""The logit of a class without any action: practically impossible, but finite."""


def marginal_logits(action_logits: Tensor, pairs: Tensor, verbs: int, nouns: int) -> tuple[Tensor, Tensor]:
    """The log-probabilities of verbs (..., V) and nouns (..., N).

    Args:
        action_logits: (..., A)
        pairs: (A, 2) int64, verb and noun of each action.
        verbs: V. A verb without actions gets the logit `NEVER` and no gradient.
        nouns: N, likewise.
    """
    actions = F.log_softmax(action_logits, -1)
    return _summed(actions, pairs[:, 0], verbs), _summed(actions, pairs[:, 1], nouns)


def _summed(actions: Tensor, group: Tensor, groups: int) -> Tensor:
    """log sum_{a in group} exp(actions_a) for each group, relative to its largest entry."""
    with torch.no_grad():
        most = actions.new_zeros((*actions.shape[:-1], groups))
        most = most.scatter_reduce(-1, group.expand(actions.shape), actions, "amax", include_self=False)
    parts = torch.exp(actions - most.index_select(-1, group))
    total = torch.zeros_like(most).index_add(-1, group, parts)
    empty = torch.ones(groups, dtype=torch.bool, device=group.device).index_fill(0, group, False)
    return torch.where(empty, NEVER, torch.where(empty, 1.0, total).log() + most)
