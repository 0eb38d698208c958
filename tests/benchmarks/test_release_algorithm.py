"""What the benchmarks compare with computes the same numbers: outputs and gradients."""

from __future__ import annotations

import pytest
import torch
from cases import random_clip, small_core

from benchmarks.release_algorithm import RecomputingCore


@pytest.mark.parametrize("case", ["paper", "released", "temporal only", "two heads"])
def test_recomputing_equals_keeping(case: str) -> None:
    core = small_core(case)
    release = RecomputingCore(core)
    x = random_clip(2, 6)
    ours, theirs = core(x)[0].y, release(x)
    torch.testing.assert_close(theirs, ours)
    ours[:, -1].square().sum().backward()
    theirs[:, -1].square().sum().backward()
    for own, copy in zip(core.cells, release.layers, strict=True):
        torch.testing.assert_close(copy.cell.ff_x[0].weight.grad, own.ff_x[0].weight.grad)
        convolution = torch.cat([own.key_value.observed.weight.grad, own.key_value.recurrent.weight.grad], 1)
        torch.testing.assert_close(torch.cat([copy.ff_k[0].weight.grad, copy.ff_v[0].weight.grad]), convolution)
