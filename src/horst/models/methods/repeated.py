"""A convolution that a recurrence applies at every frame, with one weight gradient for the whole clip.

Autograd computes that gradient frame by frame and adds up, in many kernels for one frame each. Here a use stores its
input and its output gradient; when the backward pass has visited all of them, one gradient over all frames is computed.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Convolve = Callable[[Tensor], Tensor]


def repeated(weight: Tensor, bias: Tensor | None) -> Convolve:
    """A convolution of maps (B, C, H, W) that keeps their size, to be used many times. The kernel size is odd."""
    padding = weight.shape[-1] // 2
    if torch.compiler.is_compiling() or not (torch.is_grad_enabled() and weight.requires_grad):
        return lambda x: F.conv2d(x, weight, bias, padding=padding)
    kind = weight.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    uses: list[tuple[Tensor, Tensor]] = []
    source = _RepeatedWeights.apply(weight, bias, uses)
    # cast, and arranged for the GPU, once
    fixed = laid_out(weight.detach().to(dtype))
    added = None if bias is None else bias.detach().to(dtype)
    return lambda x: _RepeatedUse.apply(laid_out(x.to(dtype)), fixed, added, uses, source)


def laid_out(x: Tensor) -> Tensor:
    """Channels last on a GPU, where convolutions would transpose their maps otherwise."""
    return x.contiguous(memory_format=torch.channels_last) if x.is_cuda else x


class _RepeatedWeights(torch.autograd.Function):
    """The source of all uses, so that its backward pass comes after theirs."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: list[Any]) -> Tensor:
        ctx.save_for_backward(weight, bias)
        ctx.uses = uses
        return weight.new_empty(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        weight, bias = ctx.saved_tensors
        if not ctx.uses:
            return None, None, None
        x, dy = (torch.cat(parts) for parts in zip(*ctx.uses, strict=True))
        ctx.uses.clear()
        _, dweight, dbias = _backward(dy, x, weight.to(x.dtype), bias, weights=True)
        return dweight.to(weight.dtype), None if bias is None else dbias.to(bias.dtype), None


class _RepeatedUse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, uses: list[Any], source: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.uses = uses
        return F.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.uses.append((x, dy))
        dx = _backward(dy, x, weight, None, weights=False)[0] if ctx.needs_input_grad[0] else None
        return dx, None, None, None, None


def _backward(dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, *, weights: bool) -> Any:
    """The gradients at input, weight and bias: the first, or the others."""
    sizes, pad = None if bias is None else list(bias.shape), [weight.shape[-1] // 2] * 2
    mask = [not weights, weights, weights and bias is not None]
    return torch.ops.aten.convolution_backward(dy, x, weight, sizes, [1, 1], pad, [1, 1], False, [0, 0], 1, mask)
