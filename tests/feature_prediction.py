"""Shared by the tests of predicted features: points on a circle, and training on them only."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from horst.heads import Logits, Unroller
from horst.models.methods.lstm import LSTM, LSTMConfig
from horst.training.losses import feature_loss

FEATURES = 4


def circling(clips: int, frames: int, seed: int) -> Tensor:
    """(B, T, 4): two points that go round a circle at fixed speeds, from anywhere on it."""
    start = 2 * math.pi * torch.rand(clips, 1, 2, generator=torch.Generator().manual_seed(seed))
    angle = start + torch.arange(frames)[None, :, None] * torch.tensor([0.6, -0.9])
    return torch.cat([angle.cos(), angle.sin()], -1)


def lstm(dtype: torch.dtype = torch.float32, hidden: int = 24) -> LSTM:
    torch.manual_seed(0)
    return LSTM(LSTMConfig(in_channels=FEATURES, hidden=hidden)).to(dtype)


def read(core: LSTM, head: Unroller, features: Tensor, **options: object) -> Logits:
    """What a head says of features (B, T, F)."""
    out, _ = core(features[..., None, None])
    return head(**{name: out.named(name) for name in head.reads}, **options)


def train(core: LSTM, head: Unroller, *, ahead: int, steps: int) -> None:
    """Train both to predict `ahead` frames, by the loss of predicted features only."""
    optimiser = torch.optim.Adam([*core.parameters(), *head.parameters()], lr=0.01)
    for step in range(steps):
        features = circling(16, 8, seed=step)
        future = read(core, head, features, unroll=ahead).future
        assert future is not None
        optimiser.zero_grad()
        feature_loss(future, features, torch.ones(16, 8, dtype=torch.bool)).mean().backward()
        optimiser.step()


def error(future: Tensor, features: Tensor, k: int, first: int = 2) -> float:
    """The mean squared distance of what was foretold `k` frames ahead; the first frames tell no direction yet."""
    return (future[:, first : features.shape[1] - k, k - 1] - features[:, first + k :]).square().mean().item()
