"""The output y of a layer, forward and backward on tensors: Eq. (8), or the release's squeeze-excite block.

Weights are those after `split_output`. Shapes: N maps, P = H * W pixels, C channels, C_in of the layer's input.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from horst.ops.fused import maps, norm
from horst.ops.fused.weights import LayerForm, LayerWeights

GATE = ("squeeze", "squeeze_bias", "excite", "excite_bias")


class Kept(NamedTuple):
    """What the forward pass keeps."""

    y: Tensor  # (N, P, C)
    pre: Tensor  # (N, P, C), before the norm
    stats: Tensor  # (N, 1, 2)
    summed: Tensor | None  # (N, P, C), h + x of Eq. (8)
    means: Tensor | None  # (N, C) of squeeze-excite
    gate: Tensor | None  # (N, C)


def forward(x: Tensor, memory: Tensor, w: LayerWeights, form: LayerForm) -> Kept:
    """y from the layer's input x (N, P, C_in) and its memory: h, or STATT + e in the release."""
    if w.of_x is not None:
        return excited(maps.conv(x, w.of_x, form.size), memory, w, form)
    y = torch.empty_like(memory)
    summed = memory + (x if w.project is None else maps.conv(x, w.project, form.size))
    pre = maps.conv(summed, w.y, form.size)
    stats = norm.norm(pre, w.y_norm, w.y_bias, (y,), act=form.act)
    return Kept(y, pre, stats, summed, None, None)


def excited(pre: Tensor, memory: Tensor, w: LayerWeights, form: LayerForm) -> Kept:
    """The release's block, from its convolution of x, `pre` (N, P, C), which is overwritten."""
    more = maps.conv(memory, w.y, form.size)
    y = torch.empty_like(memory)
    means = torch.empty(pre.shape[0], pre.shape[2], dtype=torch.float32, device=pre.device)
    stats = norm.norm(pre, w.y_norm, w.y_bias, None, act=form.act, add=more, means=means)
    gate = _gate(means, *_mlp(w))
    norm.apply(pre, stats, w.y_norm, w.y_bias, (y,), act=form.act, gate=gate)
    return Kept(y, pre, stats, None, means, gate)


class EmitGrads(NamedTuple):
    x: Tensor  # (N, P, C_in)
    memory: Tensor  # (N, P, C)
    weights: dict[str, Tensor]


def backward(d_y: Tensor, x: Tensor, memory: Tensor, kept: Kept, w: LayerWeights, form: LayerForm) -> EmitGrads:
    after = (kept.pre, kept.stats, w.y_norm, w.y_bias)
    if kept.summed is not None:
        d_pre, partials = norm.norm_backward((d_y,), *after, act=form.act)
        d_sum, d_conv = maps.conv_grads(d_pre, kept.summed, w.y, form.size)
        d_x, weights = d_sum, {"y": d_conv}
        if w.project is not None:
            d_x, weights["project"] = maps.conv_grads(d_sum, x, w.project, form.size)
        weights["y_norm"], weights["y_bias"] = norm.norm_grads(partials)
        return EmitGrads(d_x, d_sum, weights)
    assert kept.means is not None
    assert w.of_x is not None
    d_gate = norm.gate_sums(d_y, *after, form.act)
    d_means, *d_mlp = _gate_backward(d_gate, kept.means, *_mlp(w))
    d_pre, partials = norm.norm_backward((d_y,), *after, act=form.act, gate=kept.gate, dmean=d_means)
    d_x, d_of_x = maps.conv_grads(d_pre, x, w.of_x, form.size)
    d_memory, d_conv = maps.conv_grads(d_pre, memory, w.y, form.size)
    weights = {"y": torch.cat([d_of_x, d_conv], 1), **dict(zip(GATE, d_mlp, strict=True))}
    weights["y_norm"], weights["y_bias"] = norm.norm_grads(partials)
    return EmitGrads(d_x, d_memory, weights)


def _gate(means: Tensor, squeeze: Tensor, squeeze_bias: Tensor, excite: Tensor, excite_bias: Tensor) -> Tensor:
    """sigmoid(MLP(means)), (N, C) float32."""
    inner = torch.relu(torch.addmm(squeeze_bias, means, squeeze.flatten(1).mT))
    return torch.sigmoid(torch.addmm(excite_bias, inner, excite.flatten(1).mT))


def _gate_backward(grad: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
    """The gradients at what `_gate` takes: small, so that autograd may do it again from the means."""
    with torch.enable_grad():
        leaves = [m.detach().requires_grad_() for m in given]
        return torch.autograd.grad(_gate(*leaves), leaves, grad)


def _mlp(w: LayerWeights) -> list[Tensor]:
    return [getattr(w, name) for name in GATE]
