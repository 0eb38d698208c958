"""Exponential weights, exactly."""

from __future__ import annotations

import math

import torch

from horst.training.losses import exponential_weights


def test_each_frame_counts_a_fixed_part_of_the_next() -> None:
    counted = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]).bool()
    found = exponential_weights(counted, 0.5)
    e = math.exp(-0.5)
    torch.testing.assert_close(found, torch.tensor([[e**3, e**2, e, 1], [e**2, 0, 1, 0], [0, 0, 0, 0]]))


def test_no_rate_is_no_difference_and_a_huge_one_leaves_the_last() -> None:
    counted = torch.ones(1, 200, dtype=torch.bool)
    assert torch.equal(exponential_weights(counted, 0.0), torch.ones(1, 200))
    assert exponential_weights(counted, 1e6).nonzero().tolist() == [[0, 199]]
