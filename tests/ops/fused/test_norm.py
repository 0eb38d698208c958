"""The norm's kernels against autograd through plain PyTorch in float64: outputs, pooled maps, every gradient.

Map tensors are slices of wider ones full of NaN, and so are the outputs before each call: what is not written, or is
written or read beyond its slice, shows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.ops import reference
from horst.ops.fused import norm as fused

ACTS: dict[str, Any] = {"none": lambda z: z, "relu": torch.relu, "silu": F.silu}
HALVES = [torch.bfloat16, torch.float16] if torch.cuda.is_available() else [torch.float16]
SIZES = [  # N, H, W, C, groups
    (2, 1, 1, 2, 1),
    (2, 5, 7, 48, 1),
    (3, 3, 3, 96, 2),
    (1, 5, 7, 130, 2),
    (1, 5, 7, 304, 1),  # several tiles, the last of them part empty
]


def wide(x: Tensor) -> Tensor:
    """x as a slice of a tensor of more pixels and channels, all NaN; aligned for wide loads where its channels are."""
    n, p, c = x.shape
    left, right = (16, 32) if c % 16 == 0 else (3, 8)
    view = torch.full((n, p + 2, left + c + right), torch.nan, dtype=x.dtype, device=x.device)[:, 1:-1, left:-right]
    return view.copy_(x)


def hole(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A slice to write into."""
    return wide(torch.full(shape, torch.nan, dtype=dtype, device=device))


def untouched(x: Tensor) -> bool:
    """Whether what lies around a slice from `wide` is still NaN, and nothing of the slice is."""
    base = x._base
    assert base is not None
    return int(base.isnan().sum()) == base.numel() - x.numel() and not bool(x.isnan().any())


def plain(x: Tensor, weight: Tensor, bias: Tensor, groups: int, act: str) -> Tensor:
    return ACTS[act](F.group_norm(x.mT, groups, weight, bias).mT)


class Case(NamedTuple):
    x: Tensor
    weight: Tensor
    bias: Tensor
    dy: Tensor
    height: int
    width: int
    groups: int

    def as_type(self, dtype: torch.dtype) -> list[Tensor]:
        return [t.detach().to(dtype).requires_grad_() for t in (self.x, self.weight, self.bias)]


def case(size: tuple[int, ...], device: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> Case:
    n, h, w, c, groups = size
    g = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.randn(*shape, generator=g)  # noqa: E731
    x, dy = (rand(n, h * w, c).to(device, dtype) for _ in range(2))
    weight, bias = (1 + 0.5 * rand(c)).to(device), (0.5 * rand(c)).to(device)
    return Case(wide(x), weight, bias, wide(dy), h, w, groups)


class Output(NamedTuple):
    y: Tensor
    stats: Tensor
    pooled: Tensor
    outs: tuple[Tensor, ...]


def forward(c: Case, act: Any, add: Tensor | None = None) -> Output:
    n, p, channels = c.x.shape
    outs = tuple(hole(n, p, channels // c.groups, dtype=c.x.dtype, device=c.x.device) for _ in range(c.groups))
    pooled = torch.full((n, 3, p), torch.nan, device=c.x.device)
    stats = torch.full((n, c.groups, 2), torch.nan, device=c.x.device)
    fused.norm(c.x, c.weight, c.bias, outs, groups=c.groups, act=act, add=add, pooled=pooled, stats=stats)
    first = outs[0].float()
    assert torch.equal(pooled[:, 0], first.amax(2))
    check(pooled[:, 1], first.mean(2), 1e-6)
    assert torch.equal(pooled[:, 2], (first == first.amax(2, keepdim=True)).sum(2).float())
    assert all(untouched(out) for out in outs)
    assert untouched(c.x)
    return Output(torch.cat(outs, 2), stats, pooled, outs)


class Gradients(NamedTuple):
    x: Tensor
    weight: Tensor
    bias: Tensor


def backward(c: Case, stats: Tensor, act: Any, dy: Tensor | None = None, **options: Any) -> Gradients:
    n, p, channels = c.x.shape
    dys = tuple(wide(part) for part in (c.dy if dy is None else dy).chunk(c.groups, 2))
    dx = hole(n, p, channels, dtype=c.x.dtype, device=c.x.device)
    blocks = fused.partial_blocks(p, channels, c.groups)
    partials = torch.full((n, blocks, channels, 2), torch.nan, device=c.x.device)
    fused.norm_backward(dys, c.x, stats, c.weight, c.bias, dx, partials, groups=c.groups, act=act, **options)
    assert untouched(dx)
    assert all(untouched(part) for part in dys)
    dbias, dweight = partials.sum((0, 1)).unbind(1)
    return Gradients(dx, dweight, dbias)


def check(actual: Tensor, expected: Tensor, tolerance: float = 2e-5) -> None:
    scale = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(actual.double(), expected.detach().double(), rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("act", ACTS)
def test_equals_group_norm_and_its_gradients(size: tuple[int, ...], act: str, device: str) -> None:
    c = case(size, device)
    x, weight, bias = c.as_type(torch.float64)
    y = plain(x, weight, bias, c.groups, act)
    y.backward(c.dy.double())
    out = forward(c, act)
    check(out.y, y)
    for actual, expected in zip(backward(c, out.stats, act), (x.grad, weight.grad, bias.grad), strict=True):
        check(actual, expected)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.tuples(*(st.integers(1, 3), st.integers(1, 9), st.integers(1, 25), st.integers(2, 70), st.integers(1, 2))),
    act=st.sampled_from(list(ACTS)),
    seed=st.integers(0, 99),
)
def test_any_size(size: tuple[int, ...], act: str, seed: int, device: str) -> None:
    n, h, w, channels, groups = size
    c = case((n, h, w, channels * groups, groups), device, seed=seed)
    x, weight, bias = c.as_type(torch.float64)
    y = plain(x, weight, bias, groups, act)
    y.backward(c.dy.double())
    out = forward(c, act)
    check(out.y, y, 1e-4)  # two close values are all of the smallest maps: their rstd is large
    for actual, expected in zip(backward(c, out.stats, act), (x.grad, weight.grad, bias.grad), strict=True):
        check(actual, expected, 1e-3)


@pytest.mark.parametrize("size", SIZES[1:4])
def test_add_is_kept_in_x(size: tuple[int, ...], device: str) -> None:
    c = case(size, device)
    add = wide(c.dy * 3)
    total = (c.x + add).clone()
    out = forward(c, "silu", add)
    assert torch.equal(c.x, total)
    check(out.y, plain(total.double(), c.weight.double(), c.bias.double(), c.groups, "silu"))


@pytest.mark.parametrize("half", HALVES)
def test_statistics_are_of_the_rounded_sum(half: torch.dtype, device: str) -> None:
    c = case(SIZES[2], device, half)
    total = (c.x.float() + c.dy.float()).to(half)
    out = forward(c, "none", c.dy)
    assert torch.equal(c.x, total)
    parts = total.double().unflatten(2, (c.groups, -1))
    check(out.stats[..., 0], parts.mean((1, 3)), 1e-6)
    check(out.stats[..., 1], (parts.var((1, 3), correction=0) + 1e-5).rsqrt(), 1e-6)


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_large_mean_costs_no_precision(size: tuple[int, ...], device: str) -> None:
    c = case(size, device)
    c.x.add_(1000)
    stats = fused.norm(c.x, c.weight, c.bias, None, groups=c.groups)
    parts = c.x.double().unflatten(2, (c.groups, -1))
    check(stats[..., 0], parts.mean((1, 3)), 1e-6)
    rstd = (parts.var((1, 3), correction=0) + 1e-5).rsqrt()
    check(stats[..., 1], rstd, 1e-5)  # E[x^2] - mean^2 would be off by some per cent
    check(forward(c, "none").y, plain(c.x.double(), c.weight.double(), c.bias.double(), c.groups, "none"), 1e-3)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("act", ACTS)
def test_half_precision_is_as_good_as_plain(half: torch.dtype, act: str, device: str) -> None:
    """At most twice the error of PyTorch in that dtype, which rounds where we do: at the output and at dx."""
    c = case((2, 5, 7, 96, 2), device, half)
    runs = []
    for dtype in (torch.float64, half):
        x, weight, bias = c.as_type(dtype)
        weight, bias = (t.detach().to(half).to(dtype).requires_grad_() for t in (weight, bias))
        y = plain(x, weight, bias, c.groups, act)
        y.backward(c.dy.to(dtype))
        runs.append([t.detach().double() for t in (y, x.grad, weight.grad, bias.grad) if t is not None])
    c = c._replace(weight=c.weight.to(half), bias=c.bias.to(half))
    out = forward(c, act)
    actual = [out.y, *backward(c, out.stats, act)]
    for ours, exact, theirs in zip(actual, *runs, strict=True):
        assert (ours.double() - exact).abs().max() <= 2 * (theirs - exact).abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("size", SIZES)
def test_gradient_of_the_spatial_filter(size: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    """The filter's gradient joins dys[0]; the maximum is reached by many channels, which share it evenly."""
    c = case(size, device, dtype)
    c.weight.fill_(1.0)
    c.bias.fill_(0.0)
    c.x.copy_(c.x.float().round())  # few levels: most pixels have ties
    out = forward(c, "none")
    g = torch.Generator().manual_seed(1)
    filter_weight, df = torch.randn(2, 3, 3, generator=g).to(device), torch.randn(c.x.shape[:2], generator=g).to(device)
    filter_bias = torch.randn(1, generator=g).to(device)

    y = out.outs[0].detach().double().requires_grad_()  # as stored: its ties are those that count
    maps = y.mT.unflatten(2, (c.height, c.width))
    f = reference.spatial_filter(maps, filter_weight.double()[None], filter_bias.double()).flatten(1)
    f.backward(df.double())
    assert y.grad is not None
    if dtype == torch.float32 and c.x.shape[2] > 40:
        assert ((y == y.amax(2, keepdim=True)).sum(2) > 1).any()

    dpre = (df * f * (1 - f)).detach().float()
    dys = [wide(part) for part in c.dy.chunk(c.groups, 2)]
    total = dys[0].double() + y.grad
    n, p, channels = c.x.shape
    dx = hole(n, p, channels, dtype=dtype, device=c.x.device)
    partials = torch.full((n, fused.partial_blocks(p, channels, c.groups), channels, 2), torch.nan, device=device)
    fused.norm_backward(
        tuple(dys), c.x, out.stats, c.weight, c.bias, dx, partials, groups=c.groups,
        pooled_grad=fused.PooledGrad(dpre, filter_weight, wide(out.outs[0]), out.pooled, c.width),
    )  # fmt: skip
    assert all(untouched(part) for part in [dx, *dys])
    ulp = torch.finfo(dtype).eps
    check(dys[0], total, max(1e-6, ulp))
    assert torch.equal(dys[-1], c.dy.chunk(c.groups, 2)[-1]) or c.groups == 1
    # From the sum as stored, the rest is the usual backward pass.
    again = backward(c, out.stats, "none", torch.cat(dys, 2))
    check(dx, again.x, 2 * ulp)
    check(partials.sum((0, 1)), torch.stack([again.bias, again.weight], 1), 1e-6)


@pytest.mark.parametrize("size", [s for s in SIZES if s[-1] == 1])
@pytest.mark.parametrize("act", ACTS)
def test_squeeze_excite(size: tuple[int, ...], act: Any, device: str) -> None:
    """z + z * gate(mean z), in the steps of the fast path: statistics and means, gate, output; and back."""
    c = case(size, device)
    n, p, channels = c.x.shape
    mix = torch.randn(channels, channels, generator=torch.Generator().manual_seed(1)).to(device) / channels**0.5
    x, weight, bias = c.as_type(torch.float64)
    z = plain(x, weight, bias, 1, act)
    y = z + z * torch.sigmoid(z.mean(1) @ mix.double()).unsqueeze(1)
    y.backward(c.dy.double())

    means = torch.full((n, channels), torch.nan, device=device)
    stats = fused.norm(c.x, c.weight, c.bias, None, act=act, means=means)
    check(means, z.mean(1))
    mean = means.clone().requires_grad_()
    gate = torch.sigmoid(mean @ mix)
    out = hole(n, p, channels, dtype=c.x.dtype, device=c.x.device)
    fused.apply(c.x, stats, c.weight, c.bias, (out,), act=act, gate=gate.detach())
    assert untouched(out)
    check(out, y)

    gate.backward(fused.gate_sums(c.dy, c.x, stats, c.weight, c.bias, act))
    assert mean.grad is not None
    gradients = backward(c, stats, act, gate=gate.detach(), dmean=mean.grad)
    for actual, expected in zip(gradients, (x.grad, weight.grad, bias.grad), strict=True):
        check(actual, expected, 1e-4)


def test_a_constant_map_is_its_bias(device: str) -> None:
    """The all-zero state: no deviation, so y = bias and rstd = eps^-1/2."""
    c = case(SIZES[2], device)
    c.x.zero_()
    out = forward(c, "none")
    check(out.y, c.bias.expand_as(out.y), 1e-6)
    check(out.stats[..., 1], torch.full((3, 2), 1e-5**-0.5, device=device), 1e-6)


def test_same_bits_every_time(device: str) -> None:
    c = case(SIZES[4], device)
    runs = [forward(c, "silu") for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(runs[0][:3], runs[1][:3], strict=True))
    gradients = [backward(c, runs[0].stats, "silu") for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
