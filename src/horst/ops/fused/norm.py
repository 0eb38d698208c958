"""GroupNorm and activation, forward and backward, over channels-last maps.

A norm over (C, H, W) needs its statistics before its output, so each direction has two passes: one sums, one writes.
Other operations on the same tensors are fused: the sum with a second input, the pooled maps of the spatial filter
(Eq. 4) and their gradient, squeeze-excite.

Shapes: N maps, P = H * W pixels, C channels. A map tensor is (N, P, C) with channels at stride 1, and may be a slice of
a wider one. `groups` is 1 or 2 (a key and its value). Statistics, gates, pooled maps and sums are contiguous float32.
"""

from typing import Literal, NamedTuple

import torch
import triton
from torch import Tensor

from horst.ops.fused import norm_kernels as kernels
from horst.ops.fused.tuning import LAUNCHES

Act = Literal["none", "relu", "silu"]
FILTER_PIXELS = 256  # pixels of a program of the spatial filter's gradient
ROW = 256  # channels that a warp loads at once: 8 of 16 bits per thread


class PooledGrad(NamedTuple):
    """The spatial filter's gradient, to be added to that of the first group's output."""

    dpre: Tensor  # (N, P) float32, the gradient before the filter's sigmoid
    weight: Tensor  # (2, 3, 3) float32, the filter's weight in the order max, mean
    y: Tensor  # (N, P, C / groups), the first group's output as `norm` stored it
    pooled: Tensor  # (N, 3, P) float32, as `norm` filled it
    width: int  # W of the map


def norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    outs: tuple[Tensor, ...] | None,
    *,
    groups: int = 1,
    act: Act = "none",
    add: Tensor | None = None,
    pooled: Tensor | None = None,
    means: Tensor | None = None,
    stats: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """act(GroupNorm(x)) into `outs`, one (N, P, C / groups) per group; returns statistics (N, groups, 2): mean, rstd.

    They are written into `stats` if given. With `add` (N, P, C), x becomes x + add, rounded to its dtype, and is then
    normalised. `pooled` (N, 3, P) is filled with maximum and mean over the channels of the first group's output as
    stored, and with the number of channels that reach the maximum. `means` (N, C) is filled with the output's mean over
    the pixels, unrounded (one group). Without `outs` (None) only statistics and means are computed.
    """
    n, p, c = x.shape[0], x.shape[1], x.shape[2] // groups
    bp, cp = _tile(p, c, "norm")
    blocks = triton.cdiv(p, bp)
    merged = triton.next_power_of_2(blocks)
    moments = x.new_empty(n, groups, blocks, 2, dtype=torch.float32)
    stats = moments.new_empty(n, groups, 2) if stats is None else stats
    kernels.moments_kernel[n * blocks, groups](
        *_map(x), *_map(add), moments, p, c, bp, cp, num_warps=LAUNCHES["norm"].warps
    )
    if outs is None:
        kernels.stats_kernel[n * groups,](moments, stats, p, eps, c, bp, merged, num_warps=1)
    else:
        first, second = outs[0], outs[1] if groups == 2 else None
        kernels.apply_kernel[n * blocks, groups](
            *_map(x), moments, stats, weight, bias, None, *_map(first), *_map(second), pooled, p, eps,
            c, act, bp, cp, merged, num_warps=LAUNCHES["norm"].warps,
        )  # fmt: skip
    if means is not None:
        torch.sum(_channel_sums(None, x, stats, weight, bias, act, 1 / p), 1, out=means)
    return stats


def apply(
    x: Tensor,
    stats: Tensor,
    weight: Tensor,
    bias: Tensor,
    outs: tuple[Tensor, ...] | None = None,
    *,
    groups: int = 1,
    act: Act = "none",
    gate: Tensor | None = None,
) -> Tensor:
    """act(GroupNorm(x)) from its statistics, as `norm` writes it, into `outs` or a new tensor; returns the first.

    With `gate` (N, C; one group) it is squeeze-excite's output z + z * gate, the gate after its sigmoid.
    """
    n, p, c = x.shape[0], x.shape[1], x.shape[2] // groups
    bp, cp = _tile(p, c, "norm")
    first, second = (torch.empty_like(x), None) if outs is None else (outs[0], outs[1] if groups == 2 else None)
    kernels.apply_kernel[n * triton.cdiv(p, bp), groups](
        *_map(x), None, stats, weight, bias, gate, *_map(first), *_map(second), None, p, 0.0,
        c, act, bp, cp, 1, num_warps=LAUNCHES["norm"].warps,
    )  # fmt: skip
    return first


def gate_sums(dy: Tensor, x: Tensor, stats: Tensor, weight: Tensor, bias: Tensor, act: Act) -> Tensor:
    """The gradient (N, C) at squeeze-excite's gate: the sum over the pixels of dy * z, with z = act(norm(x))."""
    return _channel_sums(dy, x, stats, weight, bias, act, 1.0).sum(1)


def partial_blocks(pixels: int, channels: int, groups: int = 1) -> int:
    """The number of blocks of a map in `norm_backward`: the second size of its `partials`."""
    bp, _, tiles, _ = _sum_tiles(pixels, channels // groups)
    return triton.cdiv(pixels, bp * tiles)


def norm_backward(
    dys: tuple[Tensor, ...],
    x: Tensor,
    stats: Tensor,
    weight: Tensor,
    bias: Tensor,
    dx: Tensor | None = None,
    partials: Tensor | None = None,
    *,
    groups: int = 1,
    act: Act = "none",
    gate: Tensor | None = None,
    dmean: Tensor | None = None,
    pooled_grad: PooledGrad | None = None,
) -> tuple[Tensor, Tensor]:
    """The gradient at x from `dys`, one (N, P, C / groups) per group: into `dx` (N, P, C), which must not be x, and
    `partials` (N, partial_blocks, C, 2), or new tensors; returns both.

    `partials` has every block's part of the gradients at bias and weight, see `norm_grads`. With `gate` and `dmean`
    (N, C; one group) dy is that of squeeze-excite, whose input gets dy * (1 + gate) + dmean / P. `pooled_grad` is added
    to dys[0], which is overwritten by the sum.
    """
    n, p, c = x.shape[0], x.shape[1], x.shape[2] // groups
    dx = torch.empty_like(x) if dx is None else dx
    if partials is None:
        partials = stats.new_empty(n, partial_blocks(p, groups * c, groups), groups * c, 2)
    first, second = dys[0], dys[1] if groups == 2 else None
    if gate is not None and dmean is None:
        dmean = torch.zeros_like(gate)
    elif dmean is not None and gate is None:
        gate = torch.zeros_like(dmean)
    spread = y = pooled = None
    if pooled_grad is not None:
        y, pooled = pooled_grad.y, pooled_grad.pooled
        spread = pooled.new_empty(n, 2, p)
        kernels.filter_gradient_kernel[n * triton.cdiv(p, FILTER_PIXELS),](
            pooled_grad.dpre, pooled_grad.weight, pooled, spread, pooled_grad.width, p, c, FILTER_PIXELS
        )
    bp, cp, tiles, warps = _sum_tiles(p, c)
    summed = triton.cdiv(p, bp * tiles)
    sums = stats.new_empty(n, groups, summed, 2)
    kernels.backward_sums_kernel[n * summed, groups](
        *_map(first), *_map(second), *_map(x), stats, weight, bias, gate, dmean, partials, sums,
        spread, *_map(y), pooled, p, c, act, bp, cp, tiles, num_warps=warps,
    )  # fmt: skip
    bp, cp = _tile(p, c, "norm_backward")
    kernels.backward_kernel[n * triton.cdiv(p, bp), groups](
        *_map(first), *_map(second), *_map(x), *_map(dx), stats, weight, bias, gate, dmean, sums,
        summed, p, c, act, bp, cp, triton.next_power_of_2(summed),
        num_warps=LAUNCHES["norm_backward"].warps,
    )  # fmt: skip
    return dx, partials


def norm_grads(partials: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients at weight and bias, from `norm_backward`'s sums (..., C, 2)."""
    bias, weight = partials.flatten(0, -3).sum(0).unbind(-1)
    return weight, bias


def _channel_sums(
    dy: Tensor | None, x: Tensor, stats: Tensor, weight: Tensor, bias: Tensor, act: Act, scale: float
) -> Tensor:
    """(N, blocks, C) float32: scale * the sums over each block's pixels of z, or of dy * z."""
    n, p, c = x.shape
    bp, cp, tiles, warps = _sum_tiles(p, c)
    blocks = triton.cdiv(p, bp * tiles)
    sums = stats.new_empty(n, blocks, c)
    kernels.channel_sums_kernel[n * blocks,](
        *_map(x), *_map(dy), stats, weight, bias, sums, scale, p, c, act, bp, cp, tiles, num_warps=warps
    )
    return sums


def _map(x: Tensor | None) -> tuple[Tensor | None, int, int]:
    """The arguments of a kernel for a map tensor: with the strides of its maps and its pixels."""
    return (None, 0, 0) if x is None else (x, x.stride(0), x.stride(1))


def _tile(pixels: int, channels: int, kernel: str) -> tuple[int, int]:
    """Pixels and channels of a tile, powers of two; it covers all channels of its group."""
    return min(LAUNCHES[kernel].pixels(channels), triton.next_power_of_2(pixels)), triton.next_power_of_2(channels)


def _sum_tiles(pixels: int, channels: int) -> tuple[int, int, int, int]:
    """For the kernels that sum over pixels: a tile's pixels and channels, tiles per block, and warps.

    A warp loads 256 channels of a pixel at once; wider maps need more warps. `tile` is that of a warp.
    """
    launch, cp = LAUNCHES["norm_sums"], triton.next_power_of_2(channels)
    bp = min(max(1, launch.tile // min(cp, ROW)), triton.next_power_of_2(pixels))
    return bp, cp, min(launch.stages, triton.cdiv(pixels, bp)), launch.warps * max(1, cp // ROW)
