"""Frames count exponentially more the nearer the action is: to be wrong early, when little can be known, costs little.

Jain, Singh, Koppula, Soh, Saxena 2016, "Recurrent Neural Networks for Driver Activity Anticipation via Sensory-Fusion
Architecture": loss = sum_t -exp(-(T - t)) log p_t^y, for t = 1 .. T. Here a rate r says how fast, exp(-r (T - t)).
"""

from __future__ import annotations

import torch
from torch import Tensor


def exponential_weights(counted: Tensor, rate: float) -> Tensor:
    """(B, T) float32: exp(-rate (T - t)) where frame t of a clip is `counted`, (B, T) bool, and 0 elsewhere.

    T is the last frame of the clip that counts, so that its weight is 1 and nothing is lost to rounding in long clips.
    """
    place = torch.arange(counted.shape[1], device=counted.device, dtype=torch.float32)
    last = torch.where(counted, place, 0.0).amax(1, keepdim=True)
    return torch.where(counted, torch.exp(-rate * (last - place).clamp_min(0.0)), 0.0)
