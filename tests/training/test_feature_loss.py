"""The loss of foretold features against plain loops, with anything in the padding."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cosine_similarity as cosine

from horst.training.losses import feature_loss

Distance = Literal["mse", "contrastive"]
FRAMES, CHANNELS = 5, 3


def draw(lengths: list[int], modes: int, steps: int, seed: int, rubbish: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    valid = torch.arange(FRAMES) < torch.tensor(lengths)[:, None]
    shape = (len(lengths), FRAMES, modes, steps, CHANNELS)
    future = torch.randn(shape, generator=generator, dtype=torch.float64)
    features = torch.randn(len(lengths), FRAMES, CHANNELS, generator=generator, dtype=torch.float64)
    future = torch.where(valid[..., None, None, None], future, rubbish)
    for t in range(FRAMES):
        for k in range(1, steps + 1):
            past = torch.tensor([t + k >= n for n in lengths])
            future[past, t, :, k - 1] = rubbish  # nobody can know what is foretold of frames that do not follow
    return future, torch.where(valid[..., None], features, rubbish), valid


def loop(future: Tensor, features: Tensor, lengths: list[int], distance: Distance, tau: float) -> Tensor:
    real = torch.cat([features[row, :n] for row, n in enumerate(lengths)])
    out = []
    for row, n in enumerate(lengths):
        total, count = torch.zeros((), dtype=torch.float64), 0
        for t in range(n):
            modes = []
            ahead = range(1, min(future.shape[3], n - 1 - t) + 1)
            for mode in future[row, t]:
                loss = torch.zeros((), dtype=torch.float64)
                for k in ahead:
                    said, there = mode[k - 1], features[row, t + k]
                    if distance == "mse":
                        loss = loss + ((said - there) ** 2).mean()
                    else:
                        loss = loss - cosine(said, there, dim=0) / tau + (cosine(real, said[None]) / tau).logsumexp(0)
                modes.append(loss)
            total, count = total + torch.stack(modes).min(), count + len(ahead)
        out.append(total / max(1, count))
    return torch.stack(out)


@given(
    lengths=st.lists(st.integers(0, FRAMES), min_size=1, max_size=3),
    modes=st.integers(1, 3),
    steps=st.integers(1, FRAMES + 1),
    distance=st.sampled_from(["mse", "contrastive"]),
    rubbish=st.sampled_from([math.nan, math.inf, 1e300]),
    seed=st.integers(0, 999),
)
@settings(max_examples=80, deadline=None)
def test_against_a_loop_with_rubbish_in_the_padding(
    lengths: list[int], modes: int, steps: int, distance: Distance, rubbish: float, seed: int
) -> None:
    future, features, valid = draw(lengths, modes, steps, seed, rubbish)
    future.requires_grad_()
    features.requires_grad_()
    found = feature_loss(future, features, valid, distance, 0.7)
    torch.testing.assert_close(found, loop(future, features, lengths, distance, 0.7))
    found.sum().backward()
    assert future.grad is not None
    assert torch.isfinite(future.grad).all()
    assert not future.grad[~valid].any()
    assert features.grad is None  # they are what is to be learnt
    if modes == 1:
        torch.testing.assert_close(feature_loss(future.squeeze(2), features, valid, distance, 0.7), found)


def test_only_the_nearest_mode_learns() -> None:
    future, features, valid = draw([FRAMES], 2, 1, 0)
    future[:, :-1, 1, 0] = features[:, 1:] + 1e-3
    future.requires_grad_()
    feature_loss(future, features, valid).sum().backward()
    assert future.grad is not None
    assert not future.grad[:, :, 0].any()
    assert future.grad[:, :-1, 1].all()


@pytest.mark.parametrize("distance", ["mse", "contrastive"])
def test_clips_that_are_too_short(distance: Distance) -> None:
    future, features, valid = draw([0, 1, 2], 1, 2, 0, math.nan)
    found = feature_loss(future, features, valid, distance)
    assert found[:2].tolist() == [0, 0]
    assert found[2] > 0


@pytest.mark.parametrize("distance", ["mse", "contrastive"])
def test_half_precision_is_summed_in_single(distance: Distance) -> None:
    future, features, valid = (x.bfloat16() if x.is_floating_point() else x for x in draw([5, 3], 1, 2, 0))
    with torch.autocast("cpu", torch.bfloat16):
        found = feature_loss(future, features, valid, distance)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, feature_loss(future.float(), features.float(), valid, distance))


def test_foretelling_the_right_frame_is_told_from_all_others() -> None:
    _, features, valid = draw([5, 4], 1, 1, 0)
    features = features / features.norm(dim=-1, keepdim=True)
    right = torch.cat([features[:, 1:], features[:, :1]], 1).unsqueeze(2)
    found = feature_loss(right, features, valid, "contrastive", temperature=1e-5)
    assert (found < 1e-3).all()
    assert (feature_loss(-right, features, valid, "contrastive", temperature=1e-5) > 1).all()
