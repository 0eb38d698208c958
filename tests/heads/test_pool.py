"""The batch norm of heads: torch's own where nothing is padded, and blind to padding where something is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.heads.pool import FrameNorm, MapPool

CHANNELS = 5


def pair(seed: int = 0) -> tuple[FrameNorm, nn.BatchNorm1d]:
    """One of each, with the same weights and statistics, by way of a state dict."""
    generator = torch.Generator().manual_seed(seed)
    theirs = nn.BatchNorm1d(CHANNELS)
    for tensor in (theirs.weight, theirs.bias, theirs.running_mean, theirs.running_var):
        tensor.data.uniform_(0.2, 1.5, generator=generator)
    ours = FrameNorm(CHANNELS)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def same_statistics(ours: FrameNorm, theirs: nn.BatchNorm1d, **limits: float) -> None:
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, **limits)


def rows(x: Tensor) -> Tensor:
    return x.reshape(-1, CHANNELS)


@given(
    batch=st.integers(1, 4),
    frames=st.none() | st.integers(2, 5),
    shift=st.floats(-3, 3),
    scale=st.floats(0.1, 10),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=40, deadline=None)
def test_it_is_torchs_batch_norm(batch: int, frames: int | None, shift: float, scale: float, seed: int) -> None:
    ours, theirs = (norm.double() for norm in pair(seed))  # of two frames, single precision leaves little
    shape = (batch + 1, CHANNELS) if frames is None else (batch, frames, CHANNELS)
    generator = torch.Generator().manual_seed(seed)
    x = (scale * torch.randn(shape, generator=generator).double() + shift).requires_grad_()
    z = x.detach().clone().requires_grad_()
    towards = torch.randn(shape, generator=generator)
    limits = {"rtol": 1e-6, "atol": 1e-8}
    for _ in range(3):
        a, b = ours(x), theirs(rows(z)).view(shape)
        torch.testing.assert_close(a, b, **limits)
        (a * towards).sum().backward()
        (b * towards).sum().backward()
    torch.testing.assert_close(x.grad, z.grad, **limits)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, **limits)
    same_statistics(ours, theirs, **limits)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(rows(x)).view(shape), **limits)


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(lambda n: sum(n) > 1),
    seed=st.integers(0, 2**31),
    rubbish=st.sampled_from([0.0, 1e4, float("inf"), float("nan")]),
)
@settings(max_examples=40, deadline=None)
def test_padding_is_ignored(lengths: list[int], seed: int, rubbish: float) -> None:
    ours, theirs = (norm.double() for norm in pair(seed))
    generator = torch.Generator().manual_seed(seed)
    valid = torch.arange(6) < torch.tensor(lengths)[:, None]
    x = torch.randn((len(lengths), 6, CHANNELS), generator=generator).double()
    x = torch.where(valid[..., None], x, rubbish).requires_grad_()
    real = x.detach()[valid].requires_grad_()
    towards = torch.randn(real.shape, generator=generator)
    out, expected = ours(x, valid)[valid], theirs(real)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-8)
    (out * towards).sum().backward()
    (expected * towards).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad[valid], real.grad, rtol=1e-6, atol=1e-8)
    assert not x.grad[~valid].any()  # and none of them is NaN
    same_statistics(ours, theirs, rtol=1e-6, atol=1e-8)


def test_more_padding_changes_no_bit() -> None:
    ours, _ = pair()
    again, _ = pair()
    x, valid = torch.randn(2, 4, CHANNELS), torch.tensor([[True] * 4, [True, True, False, False]])
    a = ours(x, valid)
    b = again(torch.cat([x, torch.full((2, 1, CHANNELS), 9.0)], 1), torch.nn.functional.pad(valid, (0, 1)))
    torch.testing.assert_close(a[valid], b[:, :4][valid])
    same_statistics(ours, again)


def test_a_batch_of_padding_is_not_counted() -> None:
    """A process may hold no clip that can be read."""
    ours, theirs = pair()
    out = ours(torch.randn(1, 2, CHANNELS), torch.zeros(1, 2, dtype=torch.bool))
    assert out.isfinite().all()
    same_statistics(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("mean", [0.0, 2.0, 100.0])
def test_single_precision(mean: float) -> None:
    """Also where the mean is far from what was seen before."""
    ours, theirs = pair()
    x = (torch.randn(4, 12, CHANNELS) + mean).requires_grad_()
    z, towards = x.detach().clone().requires_grad_(), torch.randn(x.shape)
    a, b = ours(x), theirs(rows(z)).view(x.shape)
    limit = 1e-5 * max(1.0, mean)
    torch.testing.assert_close(a, b, rtol=1e-5, atol=limit)
    (a * towards).sum().backward()
    (b * towards).sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-5, atol=limit)
    same_statistics(ours, theirs, rtol=1e-5, atol=1e-5)


def test_half_precision_is_summed_in_that_of_the_statistics() -> None:
    ours, theirs = pair()
    x = (torch.randn(300, CHANNELS) + 2).bfloat16()
    out = ours(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), theirs(x.float()), rtol=1e-2, atol=1e-2)
    same_statistics(ours, theirs, rtol=1e-5, atol=1e-5)


def test_pool_gives_means_in_order() -> None:
    y, e = torch.randn(2, 3, CHANNELS, 4, 4), torch.randn(2, 3, CHANNELS, 4, 4)
    pooled = MapPool(CHANNELS, ("y", "e"), "none")(None, y=y, e=e)
    torch.testing.assert_close(pooled, [y.mean((-2, -1)), e.mean((-2, -1))])
    normed = MapPool(CHANNELS, ("y", "e"), "batch")(None, y=y, e=e)
    torch.testing.assert_close(normed[1], nn.BatchNorm1d(CHANNELS)(rows(pooled[1])).view(2, 3, CHANNELS))
    with pytest.raises(ConfigError, match="norm"):
        MapPool(CHANNELS, ("y",), "bach")  # type: ignore[arg-type]
