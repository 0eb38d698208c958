"""Marginal cross-entropy against the probabilities, summed one by one."""

from __future__ import annotations

import math

import torch

from horst.training.losses import marginal_cross_entropy

PAIRS = torch.tensor([[0, 0], [0, 2], [1, 2], [3, 0]])
"""No action has verb 2 or noun 1."""


def test_it_is_cross_entropy_of_the_sums() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    verb, noun = torch.tensor([0, 1, 3, 0, -1]), torch.tensor([0, 2, 0, -1, -1])
    found = marginal_cross_entropy(logits, PAIRS, verb, noun, 4, 3)
    for losses, labels, column in zip(found, (verb, noun), (0, 1), strict=True):
        for row, label in enumerate(labels.tolist()):
            p = logits[row].exp() / logits[row].exp().sum()
            total = sum(float(p[a]) for a in range(4) if PAIRS[a, column] == label)
            assert math.isclose(float(losses[row]), -math.log(total) if label != -1 else 0.0, rel_tol=1e-9)


def test_labels_that_no_action_has() -> None:
    logits = torch.randn(2, 3, 4, requires_grad=True)
    verb, noun = torch.full((2, 3), 2), torch.full((2, 3), 1)
    losses = marginal_cross_entropy(logits, PAIRS, verb, noun, 4, 3)
    assert all(loss.shape == (2, 3) and torch.isfinite(loss).all() for loss in losses)
    (gradient,) = torch.autograd.grad(sum(loss.sum() for loss in losses), logits)
    assert torch.isfinite(gradient).all()
