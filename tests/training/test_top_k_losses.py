"""Top-k losses against their definitions, which go through every set of k classes."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import InputError
from horst.training.losses import smooth_top_k, truncated_top_k

sizes = st.integers(2, 8).flatmap(lambda classes: st.tuples(st.just(classes), st.integers(1, classes - 1)))
seeds = st.integers(0, 999)


def draw(classes: int, seed: int, rows: tuple[int, ...] = (3,), scale: float = 2.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(*rows, classes, generator=generator, dtype=torch.float64)
    return scores, torch.randint(classes, rows, generator=generator)


def hard_top_k(scores: Tensor, labels: Tensor, k: int) -> Tensor:
    """The limit of `smooth_top_k` as the temperature goes to 0."""
    true = scores.gather(-1, labels[..., None]).squeeze(-1)
    others = scores.scatter(-1, labels[..., None], -torch.inf)
    return (1.0 + (others.topk(k, -1).values[..., -1] - true) / k).clamp_min(0.0)


def sets(scores: Tensor, y: int, k: int, margin: float) -> tuple[Tensor, Tensor]:
    """Delta + mean of the scores, of all sets of k classes, and of those that hold y."""
    every = list(combinations(range(len(scores)), k))
    values = torch.stack([(0.0 if y in chosen else margin) + scores[list(chosen)].sum() / k for chosen in every])
    return values, values[torch.tensor([y in chosen for chosen in every])]


@given(size=sizes, seed=seeds, tau=st.sampled_from([0.1, 0.5, 1.0, 3.0]), margin=st.sampled_from([1.0, 0.3]))
@settings(max_examples=60, deadline=None)
def test_smooth_is_the_sum_over_all_sets(size: tuple[int, int], seed: int, tau: float, margin: float) -> None:
    classes, k = size
    scores, labels = draw(classes, seed)
    found = smooth_top_k(scores, labels, k, tau, margin)
    for s, y, loss in zip(scores, labels.tolist(), found, strict=True):
        every, right = sets(s, y, k, margin)
        torch.testing.assert_close(loss, tau * ((every / tau).logsumexp(0) - (right / tau).logsumexp(0)))


@given(size=sizes, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_hard_is_the_best_of_all_sets(size: tuple[int, int], seed: int) -> None:
    classes, k = size
    scores, labels = draw(classes, seed)
    found = hard_top_k(scores, labels, k)
    for s, y, loss in zip(scores, labels.tolist(), found, strict=True):
        every, right = sets(s, y, k, 1.0)
        torch.testing.assert_close(loss, every.max() - right.max())


@given(size=sizes, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_smooth_becomes_hard(size: tuple[int, int], seed: int) -> None:
    scores, labels = draw(size[0], seed)
    hard = hard_top_k(scores, labels, size[1])
    for tau in (1e-1, 1e-3, 1e-6):
        # the logarithm of a sum of n terms is above the largest by log n at most; 8 classes have at most 70 sets
        torch.testing.assert_close(smooth_top_k(scores, labels, size[1], tau), hard, rtol=0, atol=5 * tau)


@given(size=sizes, seed=seeds, tau=st.sampled_from([0.2, 1.0]))
@settings(max_examples=15, deadline=None)
def test_gradients(size: tuple[int, int], seed: int, tau: float) -> None:
    classes, k = size
    scores, labels = draw(classes, seed, (2, 2))
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: smooth_top_k(s, labels, k, tau), scores)
    assert torch.autograd.gradcheck(lambda s: truncated_top_k(s, labels, k), scores)


@given(classes=st.integers(2, 9), seed=seeds, tau=st.sampled_from([0.3, 1.0]))
@settings(max_examples=30, deadline=None)
def test_one_guess_is_cross_entropy(classes: int, seed: int, tau: float) -> None:
    """Smooth: of scores from which the true class's margin is taken, at its temperature. Truncated: itself."""
    scores, labels = draw(classes, seed)
    torch.testing.assert_close(truncated_top_k(scores, labels, 1), F.cross_entropy(scores, labels, reduction="none"))
    lowered = (scores - F.one_hot(labels, classes)) / tau
    expected = tau * F.cross_entropy(lowered, labels, reduction="none")
    torch.testing.assert_close(smooth_top_k(scores, labels, 1, tau), expected)


@given(size=sizes, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_truncated_drops_the_largest_others(size: tuple[int, int], seed: int) -> None:
    classes, k = size
    scores, labels = draw(classes, seed)
    for s, y, loss in zip(scores, labels.tolist(), truncated_top_k(scores, labels, k), strict=True):
        others = torch.cat([s[:y], s[y + 1 :]]).sort().values[: classes - k]
        torch.testing.assert_close(loss, (1 + (others - s[y]).exp().sum()).log())


@pytest.mark.parametrize("tau", [0.1, 1.0])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_many_classes_in_single_precision(tau: float, scale: float) -> None:
    scores, labels = draw(2513, 0, (16,), scale)
    exact, single = scores.clone().requires_grad_(), scores.float().requires_grad_()
    expected, found = smooth_top_k(exact, labels, 5, tau), smooth_top_k(single, labels, 5, tau)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    expected.sum().backward()
    found.sum().backward()
    assert exact.grad is not None
    assert single.grad is not None
    torch.testing.assert_close(single.grad.double(), exact.grad, rtol=0, atol=1e-4)


def test_unknown_labels() -> None:
    scores = torch.randn(2, 6, requires_grad=True)
    labels = torch.tensor([-1, 5])
    for loss in (smooth_top_k(scores, labels, 3), truncated_top_k(scores, labels, 3)):
        assert loss[0] == 0
        (gradient,) = torch.autograd.grad(loss.sum(), scores)
        assert torch.isfinite(gradient).all()
        assert not gradient[0].any()


@pytest.mark.parametrize("k", [0, 4, 5])
def test_more_guesses_than_wrong_answers(k: int) -> None:
    for loss in (smooth_top_k, truncated_top_k):
        with pytest.raises(InputError, match=f"k is {k} of 4 classes"):
            loss(torch.zeros(1, 4), torch.tensor([0]), k)
