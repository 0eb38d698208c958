"""Metrics as fractions: functions of scores (N, C) and labels (N,).

Classes are ranked by score, and equal scores by class number, so results do not depend on how a machine sorts. A class
with score -inf was not predicted: a row of -inf is a miss, which keeps unreadable clips in every denominator. Rows with
the label -1 (unknown) are left out.

Shapes: N examples, P positions (observed fractions or anticipation times), C classes, A actions, T frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.errors import InputError
from horst.masks import length_mask

BINS = 15
NEVER = 2**31  # the rank of a class that was not predicted: in no top k


def label_ranks(scores: Tensor, labels: Tensor) -> Tensor:
    """(N,) number of classes ranked before the label; NEVER if the label was not predicted or is unknown.

    This is the expensive part of accuracy and recall: the functions `..._of_ranks` compute them from here.
    """
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        shapes = f"scores have shape {tuple(scores.shape)} and labels {tuple(labels.shape)}"
        raise InputError(f"{shapes}; (N, C) and (N,) are needed")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"labels are {labels.dtype}; whole numbers are needed")
    wrong = (labels < UNKNOWN) | (labels >= scores.shape[1])
    if wrong.any():
        row = int(wrong.nonzero()[0])
        known = f"there are {scores.shape[1]} classes from 0 on, -1 is unknown"
        raise InputError(f"example {row} has label {int(labels[row])}; {known}")
    nan = scores.isnan().any(1)
    if nan.any():
        raise InputError(f"the scores of example {int(nan.nonzero()[0])} are NaN")
    if not len(scores) or not scores.shape[1]:
        return torch.full(labels.shape, NEVER, device=labels.device)
    label = labels.long().clamp(min=0)[:, None]
    own = scores.gather(1, label)
    ranks = (scores > own).sum(1)
    tied = ((scores == own).sum(1) > 1).nonzero()[:, 0]  # few rows, if any
    earlier = torch.arange(scores.shape[1], device=scores.device) < label[tied]
    ranks[tied] += ((scores[tied] == own[tied]) & earlier).sum(1)
    return ranks.masked_fill((own[:, 0] == -torch.inf) | (labels == UNKNOWN), NEVER)


def accuracy_of_ranks(ranks: Tensor, labels: Tensor, k: int) -> float:
    """Top-k accuracy: the fraction of examples whose label is among the k best."""
    known = _known(labels, k)
    return int((ranks[known] < k).sum()) / int(known.sum())


def recall_of_ranks(ranks: Tensor, labels: Tensor, k: int) -> float:
    """Mean top-k recall: the mean over classes of the fraction of their examples that have them among the k best."""
    known = _known(labels, k)
    ranks, labels = ranks[known], labels[known].long()
    total = torch.bincount(labels)
    found = torch.bincount(labels[ranks < k], minlength=len(total))
    present = total > 0
    return float((found[present].double() / total[present]).mean())


def time_of_ranks(ranks: Tensor, labels: Tensor, k: int, times: Sequence[float]) -> float:
    """Mean time before the action at which its label is first among the k best; 0 if it never is.

    `ranks` is (N, P), one position for each of `times`, the earliest first.
    """
    hits = ranks[_known(labels, k)] < k
    first = torch.cat([hits, hits.new_ones(len(hits), 1)], 1).int().argmax(1)
    return float(torch.tensor([*times, 0.0], dtype=torch.float64, device=first.device)[first].mean())


def marginalize(
    action_probabilities: Tensor, action_to_class: Sequence[int] | Tensor, num_classes: int, rulstm_empty: bool = False
) -> Tensor:
    """Probabilities (..., num_classes) of verbs or nouns: the sums over their actions (..., A).

    A class without actions has probability 0. With `rulstm_empty` it has that of action 0, as in RULSTM's release.
    """
    parts = torch.as_tensor(action_to_class, dtype=torch.int64, device=action_probabilities.device)
    actions = action_probabilities.shape[-1]
    if parts.shape != (actions,):
        raise InputError(f"there are {actions} actions and {tuple(parts.shape)} classes for them: one each is needed")
    if actions and not 0 <= int(parts.min()) <= int(parts.max()) < num_classes:
        found = f"{int(parts.min())} to {int(parts.max())}"
        raise InputError(f"actions have classes {found}; there are {num_classes}, counted from 0")
    summed = action_probabilities @ torch.nn.functional.one_hot(parts, num_classes).to(action_probabilities.dtype)
    if rulstm_empty:
        empty = torch.bincount(parts, minlength=num_classes) == 0
        summed[..., empty] = action_probabilities[..., :1]
    return summed


def probabilities(scores: Tensor) -> Tensor:
    """Softmax over the last axis; a row of -inf, which predicts nothing, becomes zeros."""
    return torch.softmax(scores, -1).nan_to_num(0.0) if scores.shape[-1] else scores


@dataclass(frozen=True, slots=True)
class CalibrationBins:
    """Sums over predictions in bins of equal width by confidence."""

    count: list[int]
    confidence: list[float]
    right: list[float]

    @property
    def error(self) -> float:
        """Expected calibration error: the gap between confidence and accuracy, averaged over the bins."""
        gaps = (abs(right - sure) for right, sure in zip(self.right, self.confidence, strict=True))
        return sum(gaps) / sum(self.count)


def calibration_bins(scores: Tensor, labels: Tensor, bins: int = BINS) -> CalibrationBins:
    """Predictions by confidence. Rows of -inf predict nothing and are left out."""
    label_ranks(scores, labels)  # checks them
    counted = (labels != UNKNOWN) & (scores > -torch.inf).any(1)
    if not counted.any():
        raise InputError("nothing was predicted for any example with a label, so there is no calibration")
    confidence, answer = torch.softmax(scores[counted].double(), 1).max(1)
    right = (answer == labels[counted]).double()
    place = bin_of(confidence, bins)
    sums = [confidence.new_zeros(bins).index_add_(0, place, values).tolist() for values in (confidence, right)]
    return CalibrationBins(torch.bincount(place, minlength=bins).tolist(), *sums)


def bin_of(confidence: Tensor, bins: int = BINS) -> Tensor:
    """The bin of each confidence. The upper end belongs to a bin, the lower one does not."""
    return (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)


def decided(answers: Tensor, lengths: Tensor) -> float:
    """Mean fraction of a clip after which the prediction no longer changes.

    `answers` (N, T) are the predicted classes at each frame, of which the first `lengths` (N,) count. A clip of length
    0 could not be read: it counts as 1.
    """
    if not len(lengths):
        raise InputError("there are no clips")
    if answers.shape[1] == 0:
        return 1.0
    last = answers.gather(1, (lengths - 1).clamp(min=0)[:, None])
    places = torch.arange(answers.shape[1], device=answers.device)
    other = (answers != last) & length_mask(lengths, answers.shape[1])
    begin = torch.where(other, places + 1, 0).amax(1)  # the frame after the last one with another prediction
    fraction = (begin + 1).double() / lengths.clamp(min=1)
    return float(torch.where(lengths > 0, fraction, 1.0).mean())


def area(positions: Sequence[float], values: Sequence[float]) -> float:
    """Mean height of a curve: its area by the trapezoidal rule over the width of the positions."""
    if len(positions) != len(values) or len(positions) < 2:
        raise InputError(f"{len(positions)} positions and {len(values)} values make no curve; at least 2 of each do")
    x, y = (torch.tensor(list(v), dtype=torch.float64) for v in (positions, values))
    return float(torch.trapezoid(y, x) / (x[-1] - x[0]))


def _known(labels: Tensor, k: int) -> Tensor:
    """(N,) bool: which labels are known. There must be at least one."""
    if type(k) is not int or k < 1:
        raise InputError(f"k is {k!r}; it takes a whole number from 1 on")
    known = labels != UNKNOWN
    if not known.any():
        raise InputError("no example has a label, so there is nothing to measure")
    return known
