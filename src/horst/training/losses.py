"""What is learnt from: cross-entropy at the frames that a protocol asks, summed over verb, noun and action.

Shapes: B clips, T frames, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.batches import UNKNOWN
from horst.errors import DataError
from horst.heads import Logits
from horst.training.config import Loss


class ClipLoss(NamedTuple):
    """Clip by clip, so that a mean over all processes is the mean over all clips."""

    loss: Tensor
    """(B,) float32; 0 where the clip has no label."""
    labelled: Tensor
    """(B,) bool"""
    right: Tensor
    """(B,) bool: whether the most likely action at the last frame is the true one."""


def frame_weights(options: Loss, valid: Tensor, observed: Tensor, anticipated: int) -> Tensor:
    """(B, T) weights of the frames, 1 in sum for each clip; 0 for a clip without a frame that counts.

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
    weights = counted.float()
    if options.ramp:
        weights = weights * torch.arange(1, valid.shape[1] + 1, device=valid.device)
    return weights / weights.sum(1, keepdim=True).clamp_min(1.0)


def clip_loss(
    logits: Logits, labels: Mapping[str, Tensor], weights: Tensor, valid: Tensor, label_smoothing: float
) -> ClipLoss:
    """The loss of each clip: over its frames by `weights`, over tasks in sum. Unknown labels are not learnt from."""
    tasks = [task for task in logits if task in labels]
    if not tasks:
        raise DataError(f"the data has labels for {', '.join(labels) or 'nothing'}, the model predicts {list(logits)}")
    total = torch.zeros(weights.shape[0], device=weights.device)
    labelled = torch.zeros_like(total, dtype=torch.bool)
    for task in tasks:
        # what lies in the padding may be anything, also not a number: nothing of it may reach a loss or a gradient
        scores = torch.where(weights.unsqueeze(-1) > 0, logits[task].float(), 0.0)
        target = labels[task]
        known = target != UNKNOWN
        frames = scores.shape[1]
        losses = F.cross_entropy(
            scores.flatten(0, 1),
            target.repeat_interleave(frames),
            ignore_index=UNKNOWN,
            reduction="none",
            label_smoothing=label_smoothing,
        ).view(-1, frames)
        total = total + (losses * weights).sum(1)
        labelled |= known
    labelled &= weights.sum(1) > 0
    last = valid.sum(1).clamp_min(1) - 1
    answer = logits.action[torch.arange(len(last), device=last.device), last].argmax(-1)
    return ClipLoss(torch.where(labelled, total, 0.0), labelled, answer == labels["action"])
