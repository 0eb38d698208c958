"""The more of an action has been seen, the surer a model should be: what it once believed it must not unlearn.

Ma, Sigal, Sclaroff 2016, "Learning Activity Progression in LSTMs for Activity Detection and Early Detection". With
p_t^y the probability of the true class y at frame t and m_t = p_t^y - max_{c != y} p_t^c its margin over the others:

    score:   max(0, max_{t' < t} p_{t'}^y - p_t^y)
    margin:  max(0, max_{t' < t} m_{t'} - m_t)

Shapes: B clips, T frames, K classes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.training.config import RankingForm


def ranking_loss(scores: Tensor, labels: Tensor, valid: Tensor, form: RankingForm = "score") -> Tensor:
    """(B, T): by how much each frame falls below the best frame before it; 0 for the first, in padding, and for a clip
    whose label is unknown.

    Args:
        scores: (B, T, K) logits or logarithms of probabilities.
        labels: (B,) true classes.
        valid: (B, T) bool, no padding. What stands in the padding reaches neither the loss nor a gradient.
        form: Which of the two is asked for; "both" is their sum.
    """
    known = labels != UNKNOWN
    counted = valid & known[:, None]
    probabilities = F.softmax(torch.where(counted.unsqueeze(-1), scores, 0.0), -1)
    true = labels.clamp_min(0)[:, None, None].expand(-1, scores.shape[1], 1)
    sure = probabilities.gather(-1, true).squeeze(-1)
    total = torch.zeros_like(sure)
    if form != "margin":
        total = total + _fall(sure, counted)
    if form != "score":
        others = probabilities.scatter(-1, true, 0.0)  # probabilities are not negative: 0 is never above another class
        total = total + _fall(sure - others.amax(-1), counted)
    return total


def _fall(values: Tensor, counted: Tensor) -> Tensor:
    """max(0, max_{t' < t} values_{t'} - values_t) over the frames that count; `values` lie in -1 .. 1."""
    below = torch.where(counted, values, -2.0)
    best = torch.cat([torch.full_like(below[:, :1], -2.0), below.cummax(1).values[:, :-1]], 1)
    return torch.where(counted, F.relu(best - values), 0.0)
