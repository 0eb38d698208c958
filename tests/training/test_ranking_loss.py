"""The ranking loss: exact on examples, against a loop, zero where belief never falls, no padding in it."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.heads import Logits
from horst.training.config import Loss
from horst.training.losses import clip_loss, ranking_loss

Form = Literal["score", "margin", "both"]
forms = st.sampled_from(["score", "margin", "both"])


def test_an_example() -> None:
    p = torch.tensor([[[0.5, 0.3, 0.2], [0.6, 0.4, 0.0], [0.4, 0.3, 0.3], [0.55, 0.45, 0.0]]])
    score = [0, 0, 0.2, 0.05]
    margin = [0, 0, 0.1, 0.1]  # of 0.2, 0.2, 0.1, 0.1
    labels, valid = torch.zeros(1, dtype=torch.int64), torch.ones(1, 4, dtype=torch.bool)
    scores = p.clamp_min(1e-12).log()
    for given_scores in (scores, scores + 7):  # logits are as good as logarithms of probabilities
        torch.testing.assert_close(ranking_loss(given_scores, labels, valid), torch.tensor([score]))
        torch.testing.assert_close(ranking_loss(given_scores, labels, valid, "margin"), torch.tensor([margin]))
        both = torch.tensor([score]) + torch.tensor([margin])
        torch.testing.assert_close(ranking_loss(given_scores, labels, valid, "both"), both)


def falls(values: list[float]) -> list[float]:
    return [max(0.0, max(values[:t]) - values[t]) if t else 0.0 for t in range(len(values))]


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    form=forms,
    seed=st.integers(0, 999),
    rubbish=st.sampled_from([math.nan, math.inf, 1e30]),
)
@settings(max_examples=60, deadline=None)
def test_against_a_loop_with_rubbish_in_the_padding(lengths: list[int], form: Form, seed: int, rubbish: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    valid = torch.arange(7) < torch.tensor(lengths)[:, None]
    scores = torch.randn(len(lengths), 7, 4, generator=generator, dtype=torch.float64)
    scores = torch.where(valid[..., None], scores, rubbish).requires_grad_()
    labels = torch.randint(-1, 4, (len(lengths),), generator=generator)
    found = ranking_loss(scores, labels, valid, form)
    expected = torch.zeros_like(found)
    for row, n in enumerate(lengths):
        y = int(labels[row])
        if y == -1 or not n:
            continue
        p = scores[row, :n].detach().softmax(-1)
        score = p[:, y].tolist()
        margin = [float(q[y] - torch.cat([q[:y], q[y + 1 :]]).max()) for q in p]
        parts = {"score": [score], "margin": [margin], "both": [score, margin]}[form]
        expected[row, :n] = torch.tensor([falls(values) for values in parts], dtype=torch.float64).sum(0)
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert torch.isfinite(gradient).all()
    assert not gradient[~valid].any()
    assert not gradient[labels == -1].any()


# A rise counts if softmax cannot lose it: it is none, or far more than the last bit.
rise = st.integers(0, 32).map(lambda sixteenths: sixteenths / 16)


@given(rises=st.lists(rise, min_size=1, max_size=8), classes=st.integers(2, 5), form=forms)
@settings(max_examples=60, deadline=None)
def test_belief_that_never_falls_costs_nothing(rises: list[float], classes: int, form: Form) -> None:
    scores = torch.zeros(1, len(rises), classes, dtype=torch.float64)
    scores[0, :, 1] = torch.tensor(rises, dtype=torch.float64).cumsum(0)
    scores.requires_grad_()
    loss = ranking_loss(scores, torch.tensor([1]), torch.ones(1, len(rises), dtype=torch.bool), form)
    assert not loss.any()
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert not gradient.any()


@pytest.mark.parametrize("form", ["score", "margin", "both"])
def test_gradients(form: Form) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    valid = torch.arange(5) < torch.tensor([5, 3])[:, None]

    def loss(s: Tensor) -> Tensor:
        return ranking_loss(s, torch.tensor([2, 0]), valid, form)

    assert loss(scores).any()
    assert torch.autograd.gradcheck(loss, scores)


def test_it_is_added_as_its_mean_over_valid_frames() -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(2, 5, 3, dtype=torch.float64), torch.tensor([0, 2])
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    weights = torch.where(valid, 0.3, 0.0).double()
    without, with_it = (
        clip_loss(Logits(scores), {"action": labels}, weights, valid, Loss(steps="every", ranking=r)).loss
        for r in (0.0, 2.0)
    )
    falls = ranking_loss(scores, labels, valid)
    assert falls.sum() > 0
    torch.testing.assert_close(with_it - without, 2 * falls.sum(1) / torch.tensor([5, 3]))
