"""The features of frames to come, foretold: they need no labels, and whoever knows them knows what happens.

"mse": Vondrick, Pirsiavash, Torralba 2016, "Anticipating Visual Representations from Unlabeled Video". With f^k_t what
is foretold at frame t of the frame k steps later, and phi the features that are really there:

    L = mean_{t, k} mean_C (f^k_t - phi_{t+k})^2

The future is open: of several modes only the one that comes nearest to it, over all steps together, is taught.

"contrastive": Wu, Zhu, Wang, Yang, Wu 2021, "Learning to Anticipate Egocentric Actions by Imagination" (ImagineRNN).
The right frame is to be told from all others of the batch, by noise-contrastive estimation:

    L = mean_{t, k} -log(exp(cos(f^k_t, phi_{t+k}) / tau) / sum_j exp(cos(f^k_t, phi_j) / tau))

Which likeness the authors take is not known to us; by their cosine, features of any scale can be learnt with one tau.

Shapes: B clips, T frames, M modes, K steps ahead, C channels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.training.config import Distance


def feature_loss(
    future: Tensor, features: Tensor, valid: Tensor, distance: Distance = "mse", temperature: float = 1.0
) -> Tensor:
    """(B,): the mean over all pairs of a frame and one k steps later within the clip; 0 for a clip without any.

    Args:
        future: (B, T, K, C) or (B, T, M, K, C): at [:, t, ..., k - 1, :] is foretold what `features[:, t + k]` are.
        features: (B, T, C). They are what is to be learnt, and get no gradient.
        valid: (B, T) bool, no padding. What stands in the padding reaches neither the loss nor a gradient.
        distance: How far what is foretold is from what is there.
        temperature: tau, of "contrastive".
    """
    if future.ndim == 4:
        future = future.unsqueeze(2)
    clips, frames, _, steps, _ = future.shape
    start = torch.arange(frames, device=valid.device)[:, None]
    later = start + torch.arange(1, steps + 1, device=valid.device)
    within, later = later < frames, later.clamp_max(frames - 1)
    counted = valid[:, :, None] & valid[:, later] & within  # (B, T, K)
    exact = torch.promote_types(future.dtype, torch.float32)
    future = torch.where(counted[:, :, None, :, None], future, 0.0).to(exact)
    features = torch.where(valid[..., None], features.detach(), 0.0).to(exact)
    if distance == "mse":
        losses = (future - features[:, later].unsqueeze(2)).square().mean(-1)
    else:
        places = torch.arange(clips, device=valid.device)[:, None, None] * frames + later
        losses = _contrast(future, features.flatten(0, 1), valid.flatten(), places, temperature)
    totals = torch.where(counted.unsqueeze(2), losses, 0.0).sum(-1)  # (B, T, M)
    return totals.min(2).values.sum(1) / counted.sum((1, 2)).clamp_min(1)


def _contrast(future: Tensor, features: Tensor, real: Tensor, places: Tensor, temperature: float) -> Tensor:
    """(B, T, M, K): how hard the features at `places`, (B, T, K), are to tell from all that are `real`, of (B T, C)."""
    with torch.autocast(future.device.type, enabled=False):
        likeness = F.normalize(future, dim=-1) @ F.normalize(features, dim=-1).T / temperature
    likeness = torch.where(real, likeness, torch.finfo(likeness.dtype).min)
    index = places[:, :, None, :, None].expand(*likeness.shape[:-1], 1)
    return likeness.logsumexp(-1) - likeness.gather(-1, index).squeeze(-1)
