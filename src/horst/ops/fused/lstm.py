"""The gates of an LSTM in one kernel forward and one backward, instead of about twenty small ones per frame.

Shapes: B batch, C channels, H x W map; memory is channels-last. In the kernels there are tiles [BP pixels, CP channels]
of R = B * P rows, P = H * W, and arithmetic is in float32. Channels have stride 1; `*_n` and `*_p` are the strides of
maps and pixels, where a tensor may be a slice of a clip. The others are contiguous, (R, C) or (R, 4 C). Gates lie side
by side: i, f, o, g.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from horst.ops.fused.tuning import LAUNCHES

ANY_ALIGNMENT = ["observed"]  # A slice of a clip, frame by frame: aligned or not, one compilation serves all


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _gate(observed, at, recurrent, there, k, C: tl.constexpr, inside):
    """One of the four, before its activation."""
    seen = tl.load(observed + at + k * C, mask=inside, other=0.0).to(tl.float32)
    return seen + tl.load(recurrent + there + k * C, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _gates(
    observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, r, c, P, C: tl.constexpr, inside
):  # fmt: skip
    """i, f, o and g of rows r and channels c."""
    n, p = (r // P).to(tl.int64), r % P
    at = (n * observed_n + p * observed_p)[:, None] + c[None, :]
    there = (n * recurrent_n + p * recurrent_p)[:, None] + c[None, :]
    i = tl.sigmoid(_gate(observed, at, recurrent, there, 0, C, inside))
    f = tl.sigmoid(_gate(observed, at, recurrent, there, 1, C, inside))
    o = tl.sigmoid(_gate(observed, at, recurrent, there, 2, C, inside))
    return i, f, o, _tanh(_gate(observed, at, recurrent, there, 3, C, inside))


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def forward_kernel(
    observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, c, h, c_next, R, P,
    C: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    """h and the next c."""
    r, ch = tl.program_id(0) * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (r < R)[:, None] & (ch < C)[None, :]
    i, f, o, g = _gates(
        observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, r, ch, P, C, inside
    )  # fmt: skip
    row = r.to(tl.int64)[:, None] * C + ch[None, :]
    now = f * tl.load(c + row, mask=inside, other=0.0).to(tl.float32) + i * g
    tl.store(c_next + row, now.to(c_next.dtype.element_ty), mask=inside)
    tl.store(h + row, (o * _tanh(now)).to(h.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def backward_kernel(
    observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, c, dh, dc_next, dgates, dc, R, P,
    C: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    """The gradients at the gates and at c. Everything in between is computed again."""
    r, ch = tl.program_id(0) * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (r < R)[:, None] & (ch < C)[None, :]
    i, f, o, g = _gates(
        observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, r, ch, P, C, inside
    )  # fmt: skip
    row = r.to(tl.int64)[:, None] * C + ch[None, :]
    before = tl.load(c + row, mask=inside, other=0.0).to(tl.float32)
    shown = _tanh(f * before + i * g)
    given = tl.load(dh + row, mask=inside, other=0.0).to(tl.float32)
    kept = tl.load(dc_next + row, mask=inside, other=0.0).to(tl.float32) + given * o * (1.0 - shown * shown)
    tl.store(dc + row, (kept * f).to(dc.dtype.element_ty), mask=inside)
    out = r.to(tl.int64)[:, None] * (4 * C) + ch[None, :]
    dtype = dgates.dtype.element_ty
    tl.store(dgates + out, (kept * g * i * (1.0 - i)).to(dtype), mask=inside)
    tl.store(dgates + out + C, (kept * before * f * (1.0 - f)).to(dtype), mask=inside)
    tl.store(dgates + out + 2 * C, (given * shown * o * (1.0 - o)).to(dtype), mask=inside)
    tl.store(dgates + out + 3 * C, (kept * i * (1.0 - g * g)).to(dtype), mask=inside)


def lstm(observed: Tensor, recurrent: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next h and c (B, C, H, W), from the two parts of [i, f, o, g] (B, 4 C, H, W), and c.

    h has the dtype of the gates, c keeps its own.
    """
    h, c = _FusedGates.apply(observed, recurrent, c)
    return h, c


class _FusedGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, observed: Tensor, recurrent: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        observed, recurrent, c = _channels_last(observed), _channels_last(recurrent), _dense(c)
        h, c_next = torch.empty_like(c, dtype=recurrent.dtype), torch.empty_like(c)
        _run(forward_kernel, c, *_maps(observed), *_maps(recurrent), c, h, c_next)
        ctx.save_for_backward(observed, recurrent, c)
        return h, c_next

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor, dc_next: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        observed, recurrent, c = ctx.saved_tensors
        dgates = torch.empty_like(recurrent, memory_format=torch.channels_last)
        dc = torch.empty_like(c)
        given = (_dense(dh), _dense(dc_next))
        _run(backward_kernel, c, *_maps(observed), *_maps(recurrent), c, *given, dgates, dc)
        return dgates.to(observed.dtype), dgates, dc


def _dense(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _channels_last(x: Tensor) -> Tensor:
    """Unchanged if its pixels are contiguous with adjacent channels, for example a frame of a clip."""
    channels, width = x.shape[1], x.shape[3]
    fits = x.stride(1) == 1 and x.stride(3) == channels and x.stride(2) == width * channels
    return x if fits else _dense(x)


def _maps(x: Tensor) -> tuple[Tensor, int, int]:
    return x, x.stride(0), x.shape[1]


def _run(kernel: Any, c: Tensor, *tensors: Any) -> None:
    """A program per tile of c (B, C, H, W)."""
    launch, channels, pixels = LAUNCHES["lstm"], c.shape[1], c.shape[2] * c.shape[3]
    rows, tile = c.shape[0] * pixels, launch.pixels(channels)
    sizes = rows, pixels, channels, tile, triton.next_power_of_2(channels)
    kernel[triton.cdiv(rows, tile),](*tensors, *sizes, num_warps=launch.warps)
