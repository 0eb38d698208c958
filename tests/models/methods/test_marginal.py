"""Marginal logits against plain sums of probabilities."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.models.methods.tsn import NEVER, marginal_logits

VERBS, NOUNS = 4, 6


def draw(actions: int, seed: int, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    """Logits, and pairs that leave the last verb and some nouns without an action."""
    generator = torch.Generator().manual_seed(seed)
    verb = torch.randint(VERBS - 1, (actions,), generator=generator)
    noun = torch.randint(NOUNS, (actions,), generator=generator)
    logits = scale * torch.randn(2, 3, actions, generator=generator, dtype=torch.float64)
    return logits, torch.stack([verb, noun], 1)


@given(actions=st.integers(1, 12), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_log_probabilities_of_sums(actions: int, seed: int) -> None:
    logits, pairs = draw(actions, seed)
    p = logits.softmax(-1)
    for found, group, groups in zip(marginal_logits(logits, pairs, VERBS, NOUNS), pairs.T, (VERBS, NOUNS), strict=True):
        assert found.shape == (2, 3, groups)
        for g in range(groups):
            members = p[..., group == g]
            expected = members.sum(-1).log() if members.numel() else torch.full((2, 3), NEVER, dtype=p.dtype)
            torch.testing.assert_close(found[..., g], expected)
        torch.testing.assert_close(found.softmax(-1), found.exp())  # they are normalised as they are


def test_a_step_has_no_time_axis() -> None:
    logits, pairs = draw(9, 0)
    whole, step = (marginal_logits(x, pairs, VERBS, NOUNS) for x in (logits, logits[:, 1]))
    for a, b in zip(whole, step, strict=True):
        torch.testing.assert_close(a[:, 1], b)


@pytest.mark.parametrize("scale", [1.0, 1000.0, 1e20])
def test_finite_with_empty_classes_and_large_scores(scale: float) -> None:
    logits, pairs = draw(12, 1, scale)
    single = logits.float().requires_grad_()
    found = marginal_logits(single, pairs, VERBS, NOUNS)
    for scores in found:
        assert torch.isfinite(scores).all()
        for label in range(scores.shape[-1]):
            loss = F.cross_entropy(scores.flatten(0, 1), torch.full((6,), label))
            (gradient,) = torch.autograd.grad(loss, single, retain_graph=True)
            assert torch.isfinite(gradient).all()
    (gradient,) = torch.autograd.grad(found[0][..., VERBS - 1].sum(), single)
    assert not gradient.any()


def test_gradients() -> None:
    logits, pairs = draw(9, 2)
    assert torch.autograd.gradcheck(lambda x: marginal_logits(x, pairs, VERBS, NOUNS), logits.requires_grad_())
