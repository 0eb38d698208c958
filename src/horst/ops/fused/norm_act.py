"""GroupNorm and activation of maps as one autograd function, over whole maps or over each channel of a map.

Under autocast PyTorch casts a map to float32 for its norm, keeps that copy and the norm's output for the backward pass,
and uses channels first. Here a map stays in its dtype and channels-last, like the convolutions before and after it, and
only the norm's input and its statistics are kept.

Shapes: N maps, P = H * W pixels, C channels.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from horst.errors import InputError
from horst.ops.fused import channel_norm_kernels as kernels
from horst.ops.fused import maps, norm
from horst.ops.fused.norm import Act
from horst.ops.fused.recurrence import norm_grads
from horst.ops.fused.tuning import LAUNCHES

DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # dtypes of the maps; arithmetic is in float32
CHANNELS = 64  # channels of a program at most: 128 bytes of 16-bit values, one cache line
ROUNDS = 4  # tiles of a map at least, if it is large enough: fewer warps are idle at the end of a small map


def norm_act(x: Tensor, weight: Tensor, bias: Tensor, *, groups: int, act: Act = "none", eps: float = 1e-5) -> Tensor:
    """act(GroupNorm(x)) of maps x (N, C, H, W) in any memory format; channels-last and in x's dtype.

    `groups` is 1 or C. It is once differentiable, at x, weight and bias, and not meant for compiled graphs.
    """
    if groups not in (1, x.shape[1]):
        raise InputError(f"groups is {groups}; the kernels support 1 and one per channel ({x.shape[1]})")
    if x.dtype not in DTYPES:
        raise InputError(f"the maps are {x.dtype}; the kernels support {', '.join(map(str, DTYPES))}")
    return NormAct.apply(x, weight, bias, groups, act, eps)


class NormAct(torch.autograd.Function):
    """Inputs and output as in `norm_act`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, groups: int, act: Act, eps: float) -> Tensor:
        height, width = x.shape[-2:]
        flat = maps.pixels(x)
        y = torch.empty_like(flat)
        if groups == 1:
            stats = norm.norm(flat, weight, bias, (y,), act=act, eps=eps)
        else:
            stats = _forward(flat, weight, bias, y, act, eps)
        ctx.groups, ctx.act = groups, act
        ctx.save_for_backward(flat, stats, weight, bias)
        return maps.picture(y, height, width)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, stats, weight, bias = ctx.saved_tensors
        dy, dx = maps.pixels(grad), torch.empty_like(x)
        n, p, c = x.shape
        if ctx.groups == 1:
            partials = stats.new_empty(n, norm.partial_blocks(p, c), c, 2)
            norm.norm_backward((dy,), x, stats, weight, bias, dx, partials, act=ctx.act)
        else:
            partials = _backward(dy, x, stats, weight, bias, dx, ctx.act)
        given = norm_grads(partials)
        d_x = maps.picture(dx, *grad.shape[-2:])
        return d_x, given.weight.to(weight.dtype), given.bias.to(bias.dtype), None, None, None


def _forward(x: Tensor, weight: Tensor, bias: Tensor, y: Tensor, act: Act, eps: float) -> Tensor:
    """The norm of each channel; returns its statistics (N, C, 2)."""
    n, p, c = x.shape
    bp, cp, warps, stages = _tile(p, c, "channel_norm")
    stats = x.new_empty(n, c, 2, dtype=torch.float32)
    kernels.forward_kernel[n, triton.cdiv(c, cp)](
        x, y, stats, weight, bias, p, eps, c, act, bp, cp, triton.cdiv(p, bp), stages, num_warps=warps
    )
    return stats


def _backward(dy: Tensor, x: Tensor, stats: Tensor, weight: Tensor, bias: Tensor, dx: Tensor, act: Act) -> Tensor:
    """Its gradient into `dx`; returns the maps' shares (N, C, 2) of the gradients at bias and weight."""
    n, p, c = x.shape
    bp, cp, warps, stages = _tile(p, c, "channel_norm_backward")
    partials = torch.empty_like(stats)
    kernels.backward_kernel[n, triton.cdiv(c, cp)](
        dy, x, dx, stats, weight, bias, partials, p, c, act, bp, cp, triton.cdiv(p, bp), stages, num_warps=warps
    )
    return partials


def _tile(pixels: int, channels: int, kernel: str) -> tuple[int, int, int, int]:
    """Pixels and channels of a tile, powers of two, then warps and stages. They depend only on the size of the map, so
    its result is the same in every batch."""
    launch, cp = LAUNCHES[kernel], min(triton.next_power_of_2(channels), CHANNELS)
    warps = launch.warps
    while warps > 1 and warps * launch.tile * ROUNDS > pixels * cp:
        warps //= 2
    return max(1, warps * launch.tile // cp), cp, warps, launch.stages
