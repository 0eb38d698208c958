"""What is learnt from: the loss of each clip, and the losses of the literature that it is put together from."""

from __future__ import annotations

from horst.training.losses.clip import ClipLoss, clip_loss, frame_weights
from horst.training.losses.exponential import exponential_weights
from horst.training.losses.features import feature_loss
from horst.training.losses.marginal import marginal_cross_entropy
from horst.training.losses.ranking import ranking_loss
from horst.training.losses.top_k import hard_top_k, smooth_top_k, truncated_top_k

__all__ = [
    "ClipLoss",
    "clip_loss",
    "exponential_weights",
    "feature_loss",
    "frame_weights",
    "hard_top_k",
    "marginal_cross_entropy",
    "ranking_loss",
    "smooth_top_k",
    "truncated_top_k",
]
