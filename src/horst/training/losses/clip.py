"""The loss of each clip: at the frames that a protocol asks, summed over verb, noun and action.

Shapes: B clips, T frames, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.errors import DataError
from horst.heads import Logits
from horst.training.config import Loss
from horst.training.losses.exponential import exponential_weights
from horst.training.losses.ranking import ranking_loss
from horst.training.losses.top_k import smooth_top_k, truncated_top_k


class ClipLoss(NamedTuple):
    """Clip by clip, so that a mean over all processes is the mean over all clips."""

    loss: Tensor
    """(B,) float32; 0 where the clip has no label."""
    labelled: Tensor
    """(B,) bool"""
    right: Tensor
    """(B,) bool: whether the most likely action at the last frame is the true one."""


def frame_weights(options: Loss, valid: Tensor, observed: Tensor, anticipated: int) -> Tensor:
    """(B, T) weights of the frames, 0 for a clip without a frame that counts.

    They are 1 in sum for each clip. At anticipation times that are summed, each has the weight 1 before `exponential`.

    Args:
        options: Which frames count.
        valid: (B, T) bool, no padding.
        observed: (B, T) bool, shows something.
        anticipated: How many positions at the end of a clip are anticipation times.
    """
    if options.steps == "last":
        after = torch.cat([valid[:, 1:], torch.zeros_like(valid[:, :1])], 1)
        counted = valid & ~after
    elif options.steps == "every":
        counted = valid & observed
    else:
        place = torch.arange(valid.shape[1], device=valid.device)
        counted = valid & observed & (place >= valid.sum(1, keepdim=True) - anticipated)
    if options.exponential is not None:
        weights = exponential_weights(counted, options.exponential)
    else:
        weights = counted.float()
    if options.ramp:
        weights = weights * torch.arange(1, valid.shape[1] + 1, device=valid.device)
    if options.steps == "anticipation" and options.times == "sum":
        return weights
    return weights / weights.sum(1, keepdim=True).clamp_min(1.0)


def clip_loss(logits: Logits, labels: Mapping[str, Tensor], weights: Tensor, valid: Tensor, options: Loss) -> ClipLoss:
    """The loss of each clip: over its frames by `weights`, over tasks in sum. Unknown labels are not learnt from.

    The ranking loss is added as its mean over all valid frames. `options.features` is left to whoever has the features.
    """
    tasks = _tasks(logits, labels, options)
    total = torch.zeros(weights.shape[0], device=weights.device)
    labelled = torch.zeros_like(total, dtype=torch.bool)
    for task in tasks:
        # what lies in the padding may be anything, also not a number: nothing of it may reach a loss or a gradient
        scores = torch.where(weights.unsqueeze(-1) > 0, logits[task].float(), 0.0)
        target = labels[task]
        known = target != UNKNOWN
        frames = scores.shape[1]
        losses = _losses(task, scores.flatten(0, 1), target.repeat_interleave(frames), options).view(-1, frames)
        total = total + (losses * weights).sum(1)
        labelled |= known
    if options.ranking and "action" in tasks:
        falls = ranking_loss(logits.action.float(), labels["action"], valid, options.ranking_form)
        total = total + options.ranking * falls.sum(1) / valid.sum(1).clamp_min(1)
    labelled &= weights.sum(1) > 0
    last = valid.sum(1).clamp_min(1) - 1
    answer = logits.action[torch.arange(len(last), device=last.device), last].argmax(-1)
    return ClipLoss(torch.where(labelled, total, 0.0), labelled, answer == labels["action"])


def _tasks(logits: Logits, labels: Mapping[str, Tensor], options: Loss) -> list[str]:
    """Which tasks are learnt from."""
    tasks = [task for task in logits if task in labels]
    told = f"the data has labels for {', '.join(labels) or 'nothing'}, the model predicts {list(logits)}"
    if not tasks:
        raise DataError(told)
    if options.tasks is None:
        return tasks
    missing = [task for task in options.tasks if task not in tasks]
    if missing:
        raise DataError(f"loss.tasks names {', '.join(missing)}, but {told}")
    return [task for task in tasks if task in options.tasks]


def _losses(task: str, scores: Tensor, target: Tensor, options: Loss) -> Tensor:
    """(N,) losses of scores (N, K); 0 where the target is unknown."""
    if options.name == "smooth_top_k":
        return smooth_top_k(scores, target, options.k, options.temperature)
    if options.name == "truncated_top_k" and task == "action":
        return truncated_top_k(scores, target, options.k)
    return F.cross_entropy(
        scores, target, ignore_index=UNKNOWN, reduction="none", label_smoothing=options.label_smoothing
    )
