"""GroupNorm and activation of maps as one function, over whole maps or over each channel of a map.

Under autocast PyTorch casts a map to float32 for its norm, keeps that copy and the norm's output for the backward pass,
and uses channels first. Here a map stays in its dtype and channels-last, like the convolutions before and after it, and
only the norm's input and its statistics are kept.

Shapes: N maps, P = H * W pixels, C channels.
"""

import copy
from typing import Any

import torch
import triton
from torch import Tensor, nn

from horst.errors import InputError
from horst.ops.fused import channel_norm_kernels as kernels
from horst.ops.fused import maps, norm
from horst.ops.fused.norm import Act
from horst.ops.fused.tuning import LAUNCHES

DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # dtypes of the maps; arithmetic is in float32
ACTIVATIONS: dict[type, Act] = {nn.ReLU: "relu", nn.SiLU: "silu"}
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
        flat = maps.pixels(x)
        y = torch.empty_like(flat)
        if groups == 1:
            stats = norm.norm(flat, weight, bias, (y,), act=act, eps=eps)
        else:
            stats = _forward(flat, weight, bias, y, act, eps)
        ctx.groups, ctx.act = groups, act
        ctx.save_for_backward(flat, stats, weight, bias)
        return maps.picture(y, x.shape[-2:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, stats, weight, bias = ctx.saved_tensors
        dy = maps.pixels(grad)
        if ctx.groups == 1:
            dx, partials = norm.norm_backward((dy,), x, stats, weight, bias, act=ctx.act)
        else:
            dx, partials = _backward(dy, x, stats, weight, bias, ctx.act)
        d_weight, d_bias = norm.norm_grads(partials)
        d_x = maps.picture(dx, grad.shape[-2:])
        return d_x, d_weight.to(weight.dtype), d_bias.to(bias.dtype), None, None, None


def _forward(x: Tensor, weight: Tensor, bias: Tensor, y: Tensor, act: Act, eps: float) -> Tensor:
    """The norm of each channel; returns its statistics (N, C, 2)."""
    n, p, c = x.shape
    bp, cp, warps, stages = _tile(p, c, "channel_norm")
    stats = x.new_empty(n, c, 2, dtype=torch.float32)
    kernels.forward_kernel[n, triton.cdiv(c, cp)](
        x, y, stats, weight, bias, p, eps, c, act, bp, cp, triton.cdiv(p, bp), stages, num_warps=warps
    )
    return stats


def _backward(dy: Tensor, x: Tensor, stats: Tensor, weight: Tensor, bias: Tensor, act: Act) -> tuple[Tensor, Tensor]:
    """Its gradient at x, and the maps' shares (N, C, 2) of the gradients at bias and weight."""
    n, p, c = x.shape
    bp, cp, warps, stages = _tile(p, c, "channel_norm_backward")
    dx, partials = torch.empty_like(x), torch.empty_like(stats)
    kernels.backward_kernel[n, triton.cdiv(c, cp)](
        dy, x, dx, stats, weight, bias, partials, p, c, act, bp, cp, triton.cdiv(p, bp), stages, num_warps=warps
    )
    return dx, partials


def _tile(pixels: int, channels: int, kernel: str) -> tuple[int, int, int, int]:
    """Pixels and channels of a tile, powers of two, then warps and stages. They depend only on the size of the map, so
    its result is the same in every batch."""
    launch, cp = LAUNCHES[kernel], min(triton.next_power_of_2(channels), CHANNELS)
    warps = launch.warps
    while warps > 1 and warps * launch.tile * ROUNDS > pixels * cp:
        warps //= 2
    return max(1, warps * launch.tile // cp), cp, warps, launch.stages


class MapNorm(nn.Module):
    """act(GroupNorm(1, C)(x)) of maps x (N, C, H, W), in their dtype and without gradient."""

    def __init__(self, given: nn.GroupNorm, act: Act) -> None:
        super().__init__()
        self.weight, self.bias, self.eps, self.act = given.weight.float(), given.bias.float(), given.eps, act

    def forward(self, x: Tensor) -> Tensor:
        return norm_act(x, self.weight, self.bias, groups=1, act=self.act, eps=self.eps)


def prepared(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy for inference: convolutions channels-last and cast once, norms over whole maps by the kernels.

    PyTorch computes the statistics of a map in one block of threads, which for one frame of 112 x 112 x 128 takes
    longer than the four layers of the SSv2 network after it.
    """
    module = copy.deepcopy(module).requires_grad_(False)
    for part in list(module.modules()):
        if isinstance(part, nn.Conv2d):
            part.weight.data = part.weight.to(dtype, memory_format=torch.channels_last)
        if isinstance(part, nn.Sequential):
            for i, first in enumerate(part):
                if isinstance(first, nn.GroupNorm) and first.num_groups == 1 and first.affine:
                    act = ACTIVATIONS.get(type(part[i + 1]), "none") if i + 1 < len(part) else "none"
                    part[i] = MapNorm(first, act)
                    if act != "none":
                        part[i + 1] = nn.Identity()
    return module
