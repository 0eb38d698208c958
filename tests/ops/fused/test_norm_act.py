"""The norm of maps with its activation as one unit for autograd, against plain PyTorch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import InputError
from horst.ops.fused.norm_act import norm_act

ACTS: dict[str, Any] = {"none": lambda z: z, "relu": torch.relu, "silu": F.silu}
HALVES = [torch.bfloat16, torch.float16] if torch.cuda.is_available() else [torch.float16]
SIZES = [  # N, C, H, W
    (2, 3, 1, 1),
    (1, 24, 3, 7),  # several tiles, the last of them part empty
    (3, 40, 1, 3),
    (2, 70, 2, 3),  # more channels than a program has
]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels first": lambda x: x.contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every other": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], 4).flatten(3)[..., ::2],
    "some channels": lambda x: torch.cat([torch.full_like(x, torch.nan), x], 1)[:, x.shape[1] :],
}
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # beyond a map's end, in the interpreter
every_act = pytest.mark.parametrize("act", ACTS)
every_norm = pytest.mark.parametrize("norm", ["layer", "channel"])


class Case(NamedTuple):
    x: Tensor
    weight: Tensor
    bias: Tensor
    dy: Tensor
    groups: int

    def to(self, dtype: torch.dtype) -> Case:
        return self._replace(x=self.x.to(dtype), weight=self.weight.to(dtype), bias=self.bias.to(dtype))


def case(size: tuple[int, ...], norm: str, device: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> Case:
    c = size[1]
    g = torch.Generator().manual_seed(seed)
    x, dy = (torch.randn(*size, generator=g).to(device, dtype) for _ in range(2))
    weight, bias = (k + 0.5 * torch.randn(c, generator=g).to(device) for k in (1, 0))
    return Case(x, weight, bias, dy, 1 if norm == "layer" else c)


class Result(NamedTuple):
    y: Tensor
    x: Tensor
    """The gradient at x, and so on."""
    weight: Tensor
    bias: Tensor


def plain(x: Tensor, weight: Tensor, bias: Tensor, *, groups: int, act: Any) -> Tensor:
    return ACTS[act](torch.group_norm(x, groups, weight, bias))  # F.group_norm refuses a single value


def run(function: Callable[..., Tensor], c: Case, act: str, layout: str = "channels first") -> Result:
    leaves = [t.detach().clone().requires_grad_() for t in (c.x, c.weight, c.bias)]
    y = function(LAYOUTS[layout](leaves[0]), *leaves[1:], groups=c.groups, act=act)
    y.backward(LAYOUTS[layout](c.dy.to(y.dtype)))
    found = [t.grad for t in leaves if t.grad is not None]
    return Result(y.detach(), *found)


def check(actual: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("size", SIZES)
@every_norm
@every_act
def test_equals_group_norm_and_its_gradients(size: tuple[int, ...], norm: str, act: str, device: str) -> None:
    c = case(size, norm, device)
    for actual, expected in zip(run(norm_act, c, act), run(plain, c.to(torch.float64), act), strict=True):
        check(actual, expected)


@every_norm
def test_any_memory_format(norm: str, device: str) -> None:
    """Of x and of the gradient that comes back; what is given is the same to the bit, and channels-last."""
    c = case(SIZES[1], norm, device)
    first, *others = (run(norm_act, c, "silu", layout) for layout in LAYOUTS)
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
        assert other.y.is_contiguous(memory_format=torch.channels_last)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 5), st.integers(1, 9)),
    norm=st.sampled_from(["layer", "channel"]),
    act=st.sampled_from(list(ACTS)),
    seed=st.integers(0, 99),
)
def test_any_size(size: tuple[int, ...], norm: str, act: str, seed: int, device: str) -> None:
    c = case(size, norm, device, seed=seed)
    for actual, expected in zip(run(norm_act, c, act), run(plain, c.to(torch.float64), act), strict=True):
        check(actual, expected, 1e-3)  # two close values are all of the smallest maps: their rstd is large


@pytest.mark.parametrize("half", HALVES)
@every_norm
@every_act
def test_half_precision_is_as_good_as_plain(half: torch.dtype, norm: str, act: str, device: str) -> None:
    """At most twice the error of PyTorch in that dtype, which rounds where we do: at the output and at dx."""
    c = case(SIZES[1], norm, device, half).to(half)
    exact = run(plain, c.to(torch.float64), act)
    for ours, theirs, true in zip(run(norm_act, c, act), run(plain, c, act), exact, strict=True):
        assert ours.dtype == half
        assert (ours.double() - true).abs().max() <= 2 * (theirs.double() - true).abs().max()


@pytest.mark.parametrize("half", HALVES)
@every_norm
def test_autocast_leaves_the_dtype(half: torch.dtype, norm: str, device: str) -> None:
    """The next convolution wants it so. The parameters are float32, and so are their gradients."""
    c = case(SIZES[1], norm, device, half)
    with torch.autocast(device, half):
        found = run(norm_act, c, "relu")
    assert [t.dtype for t in found] == [half, half, torch.float32, torch.float32]
    assert all(torch.equal(a, b) for a, b in zip(found, run(norm_act, c, "relu"), strict=True))


@every_norm
def test_a_map_of_many_tiles(norm: str, device: str) -> None:
    """Of a size where a program has all its warps."""
    c = case((1, 24, 28, 29), norm, device)
    for actual, expected in zip(run(norm_act, c, "silu"), run(plain, c.to(torch.float64), "silu"), strict=True):
        check(actual, expected)


def test_a_large_mean_costs_no_precision(device: str) -> None:
    c = case((1, 24, 28, 29), "channel", device)
    c = c._replace(x=c.x + 1000)
    for actual, expected in zip(run(norm_act, c, "none"), run(plain, c.to(torch.float64), "none"), strict=True):
        check(actual, expected, 3e-4)  # that of x itself is 6e-5; E[x^2] - mean^2 would be off by some per cent


@every_norm
def test_a_constant_map_is_its_bias(norm: str, device: str) -> None:
    c = case(SIZES[1], norm, device)
    found = run(norm_act, c._replace(x=torch.full_like(c.x, 1000.1)), "none")
    check(found.y, c.bias.view(1, -1, 1, 1).expand_as(found.y), 1e-6 if norm == "channel" else 0.1)


@every_norm
def test_same_bits_every_time_and_in_every_batch(norm: str, device: str) -> None:
    c = case(SIZES[3], norm, device)
    runs = [run(norm_act, c, "silu") for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    alone = run(norm_act, c._replace(x=c.x[1:], dy=c.dy[1:]), "silu")
    assert torch.equal(alone.y, runs[0].y[1:])
    assert torch.equal(alone.x, runs[0].x[1:])


@every_norm
def test_only_what_is_asked_for(norm: str, device: str) -> None:
    c = case(SIZES[1], norm, device)
    whole = run(norm_act, c, "relu")
    x, weight = c.x.clone().requires_grad_(), c.weight.clone().requires_grad_()
    (d_x,) = torch.autograd.grad(norm_act(x, c.weight, c.bias, groups=c.groups, act="relu"), x, c.dy)
    assert torch.equal(d_x, whole.x)
    (d_weight,) = torch.autograd.grad(norm_act(c.x, weight, c.bias, groups=c.groups, act="relu"), weight, c.dy)
    assert torch.equal(d_weight, whole.weight)
    with torch.inference_mode():
        y = norm_act(c.x, c.weight, c.bias, groups=c.groups, act="relu")
    assert torch.equal(y, whole.y)
    assert not y.requires_grad


def test_eps_counts(device: str) -> None:
    c = case(SIZES[1], "channel", device)
    for groups in (1, 24):
        y = norm_act(c.x, c.weight, c.bias, groups=groups, eps=0.5)
        check(y, F.group_norm(c.x.double(), groups, c.weight.double(), c.bias.double(), 0.5))


def test_unsupported_input_is_an_error(device: str) -> None:
    c = case(SIZES[1], "layer", device)
    with pytest.raises(InputError, match=r"groups is 3; the kernels support 1 and one per channel \(24\)"):
        norm_act(c.x, c.weight, c.bias, groups=3)
    with pytest.raises(InputError, match="float64"):
        norm_act(c.x.double(), c.weight, c.bias, groups=1)
