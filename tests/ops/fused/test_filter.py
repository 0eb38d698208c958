"""The spatial filter's kernel against the specification, and the gradient of its weight."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from near import assert_near

from horst.ops import reference
from horst.ops.fused.filter import filter_weight_grad, spatial_filter

SIZES = [(2, 1, 1), (3, 5, 7), (1, 3, 3), (2, 1, 9), (2, 9, 1), (2, 23, 25)]  # N, H, W; the last has two blocks


def check(n: int, height: int, width: int, device: str) -> None:
    g = torch.Generator().manual_seed(height * width)
    x = torch.randn(n, 5, height, width, generator=g).to(device)
    weight, bias = torch.randn(2, 3, 3, generator=g).to(device), torch.randn(1, generator=g).to(device)
    df = torch.randn(n, height * width, generator=g).to(device)
    expected_weight, expected_bias = (t.double().requires_grad_() for t in (weight, bias))
    f = reference.spatial_filter(x.double(), expected_weight.unsqueeze(0), expected_bias).flatten(1)
    f.backward(df.double())

    pooled = torch.stack([x.amax(1), x.mean(1), torch.full_like(x[:, 0], torch.nan)], 1).flatten(2)
    out = torch.full((n + 2, height * width), torch.nan, device=device)
    spatial_filter(pooled, weight, bias, out[1:-1], (height, width))
    torch.testing.assert_close(out[1:-1].double(), f.detach(), rtol=0, atol=1e-6)
    assert out[[0, -1]].isnan().all()

    dweight, dbias = filter_weight_grad(df * out[1:-1] * (1 - out[1:-1]), pooled, (height, width))
    assert_near(dweight, expected_weight.grad)
    assert_near(dbias, expected_bias.grad)


@pytest.mark.parametrize("size", SIZES)
def test_equals_the_specification(size: tuple[int, int, int], device: str) -> None:
    check(*size, device)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.tuples(st.integers(1, 3), st.integers(1, 30), st.integers(1, 30)))
def test_any_size(size: tuple[int, int, int], device: str) -> None:
    check(*size, device)
