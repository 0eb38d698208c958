"""The output y of a layer, forward and backward on tensors: Eq. (8), or the release's squeeze-excite block.

The release convolves the concatenation [x; m]. The convolution of a concatenation is the sum of two, and the norm reads
that sum: nothing is concatenated, and neither gradient needs a copy.

Shapes: N maps, P = H * W pixels, C channels, C_in of the layer's input.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from horst.ops.fused import maps, norm
from horst.ops.fused.recurrence import Sizes, norm_grads


class OutputWeights(NamedTuple):
    """Weights of the output block, or their gradients."""

    conv: Tensor
    """(C, C, 3, 3), over the memory (with x added to it, in Eq. (8))."""
    of_x: Tensor | None
    """(C, C_in, 3, 3) of the release: the part of its convolution that reads x."""
    norm: Tensor
    bias: Tensor
    project: Tensor | None
    squeeze: Tensor | None
    squeeze_bias: Tensor | None
    excite: Tensor | None
    excite_bias: Tensor | None


class Kept(NamedTuple):
    """What the forward pass keeps."""

    y: Tensor
    """(N, P, C)"""
    pre: Tensor
    """(N, P, C), before the norm."""
    stats: Tensor
    """(N, 1, 2)"""
    summed: Tensor | None
    """(N, P, C), h + x of Eq. (8)."""
    means: Tensor | None
    """(N, C) of squeeze-excite."""
    gate: Tensor | None
    """(N, C)"""


KEPT = len(Kept._fields)


def flat(kept: Kept) -> tuple[Tensor | None, ...]:
    """The tensors for autograd to keep. y is left out: only its shape is needed, which `pre` has."""
    return (None, *kept[1:])


def unflat(tensors: Sequence[Tensor]) -> Kept:
    return Kept(tensors[1], *tensors[1:])


def forward(x: Tensor, memory: Tensor, w: OutputWeights, sizes: Sizes) -> Kept:
    """y from the layer's input x (N, P, C_in) and its memory: h, or STATT + e in the release."""
    size = sizes.height, sizes.width
    if w.of_x is None:
        y = torch.empty_like(memory)
        summed = memory + (x if w.project is None else maps.conv(x, w.project, *size))
        pre = maps.conv(summed, w.conv, *size)
        stats = norm.norm(pre, w.norm, w.bias, (y,), act=sizes.act)
        return Kept(y, pre, stats, summed, None, None)
    return excited(maps.conv(x, w.of_x, *size), memory, w, sizes)


def excited(pre: Tensor, memory: Tensor, w: OutputWeights, sizes: Sizes) -> Kept:
    """The release's block, from its convolution of x, `pre` (N, P, C), which is overwritten."""
    more = maps.conv(memory, w.conv, sizes.height, sizes.width)
    y = torch.empty_like(memory)
    means = torch.empty(pre.shape[0], pre.shape[2], dtype=torch.float32, device=pre.device)
    stats = norm.norm(pre, w.norm, w.bias, None, act=sizes.act, add=more, means=means)
    gate = _gate(means, w)
    norm.scale_apply(pre, stats, w.norm, w.bias, gate, y, sizes.act)
    return Kept(y, pre, stats, None, means, gate)


class EmitGrads(NamedTuple):
    x: Tensor
    """(N, P, C_in)"""
    memory: Tensor
    """(N, P, C)"""
    weights: OutputWeights


def backward(d_y: Tensor, x: Tensor, memory: Tensor, kept: Kept, w: OutputWeights, sizes: Sizes) -> EmitGrads:
    size = sizes.height, sizes.width
    n, p, c = memory.shape
    d_pre = torch.empty_like(memory)
    partials = kept.stats.new_empty(n, norm.partial_blocks(p, c), c, 2)
    if kept.summed is not None:
        norm.norm_backward((d_y,), kept.pre, kept.stats, w.norm, w.bias, d_pre, partials, act=sizes.act)
        d_sum, d_conv = maps.conv_grads(d_pre, kept.summed, w.conv, *size)
        d_x, d_project = (d_sum, None) if w.project is None else maps.conv_grads(d_sum, x, w.project, *size)
        return EmitGrads(
            d_x, d_sum, OutputWeights(d_conv, None, *norm_grads(partials), d_project, None, None, None, None)
        )
    assert kept.means is not None
    assert w.of_x is not None
    d_gate = norm.gate_sums(d_y, kept.pre, kept.stats, w.norm, w.bias, sizes.act)
    d_means, *d_se = _gate_backward(kept.means, w, d_gate)
    norm.norm_backward(
        (d_y,), kept.pre, kept.stats, w.norm, w.bias, d_pre, partials, act=sizes.act, gate=kept.gate, dmean=d_means
    )
    d_x, d_of_x = maps.conv_grads(d_pre, x, w.of_x, *size)
    d_memory, d_conv = maps.conv_grads(d_pre, memory, w.conv, *size)
    return EmitGrads(d_x, d_memory, OutputWeights(d_conv, d_of_x, *norm_grads(partials), None, *d_se))


def _gate(means: Tensor, w: OutputWeights) -> Tensor:
    """sigmoid(MLP(means)), (N, C) float32."""
    assert w.squeeze is not None
    assert w.squeeze_bias is not None
    assert w.excite is not None
    assert w.excite_bias is not None
    inner = torch.relu(torch.addmm(w.squeeze_bias, means, w.squeeze.flatten(1).mT))
    return torch.sigmoid(torch.addmm(w.excite_bias, inner, w.excite.flatten(1).mT))


def _gate_backward(means: Tensor, w: OutputWeights, grad: Tensor) -> tuple[Tensor, ...]:
    """The gradients at the means and at the four weights: small, so that autograd may do it again from the means."""
    with torch.enable_grad():
        leaves = [m.detach().requires_grad_() for m in (means, *w[-4:]) if m is not None]
        gate = _gate(leaves[0], w._replace(**dict(zip(OutputWeights._fields[-4:], leaves[1:], strict=True))))
        return torch.autograd.grad(gate, leaves, grad)
