"""A HORST layer one frame at a time, in fixed buffers, so that a CUDA graph can replay it.

Convolutions that read the same map are merged. The ring is written in place, each stream at its own age.

Shapes: B streams, P = H * W pixels, C channels, C_in of the input, S states.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from horst.ops.fused import emit, maps, norm, statt
from horst.ops.fused import filter as filters
from horst.ops.fused.layer import at_position
from horst.ops.fused.statt import AttentionWeights, KVCache
from horst.ops.fused.weights import LayerForm, LayerWeights

BLOCK = 4096


class StepLayer:
    """One layer and its ring."""

    def __init__(self, given: LayerWeights, form: LayerForm, ring: KVCache) -> None:
        """`ring`: keys and values (S, B, P, C), filters (S, B, P); it is written to."""
        self.form, self.ring = form, ring
        self.weights = w = given.cast(ring.keys.dtype, form).split_output()
        order, b, p, c = ring.keys.shape
        self.attended = AttentionWeights.empty(ring.keys.new_empty(1, b, p, c), order, form.how.heads)
        self.of_x = w.x if w.of_x is None else _together(w.x, w.of_x)
        self.of_e = _together(w.q, w.observed)

    def __call__(
        self, x: Tensor, valid: Tensor, count: Tensor, active: Tensor, position: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One frame x (B, P, C_in): y, e and STATT (B, P, C); the ring keeps it for the streams that are active.

        `valid` (B, S) uint8 says which slots hold a state, `count` (B,) int64 how many frames each stream has seen,
        `active` (B,) uint8 which streams have a frame, `position` (B, C) is added as in `layer.run`.
        """
        w, form, (order, b, p, c) = self.weights, self.form, self.ring.keys.shape
        first = maps.conv(x, self.of_x, form.size)
        e, q, out, with_e, h, key, value = (x.new_empty(b, p, c) for _ in range(7))
        pooled, f, f_k = (self.ring.filters.new_empty(b, *s, p) for s in ((3,), (), ()))
        norm.norm(first[..., :c], w.x_norm, w.x_bias, (e,), act=form.act)
        second = maps.conv(at_position(e, position), self.of_e, form.size)
        norm.norm(second[..., :c], w.q_norm, w.q_bias, (q,), pooled=pooled)
        filters.spatial_filter(pooled, w.filter_q, w.filter_q_bias, f, form.size)
        statt.attend(q, f, self.ring, valid, 0, 0, form.how, self.attended, out, e, with_e)
        memory = out
        if w.h is not None and w.h_norm is not None and w.h_bias is not None:
            norm.norm(maps.conv(with_e, w.h, form.size), w.h_norm, w.h_bias, (h,), act=form.act)
            memory = h
        recurrent = maps.conv(memory, w.recurrent, form.size)
        norm.norm(second[..., c:], w.kv_norm, w.kv_bias, (key, value), groups=2, add=recurrent, pooled=pooled)
        filters.spatial_filter(pooled, w.filter_k, w.filter_k_bias, f_k, form.size)
        push_kernel[b, triton.cdiv(p * c, BLOCK)](
            key, f_k, value, *self.ring, count, active, b, p, p * c, S=order, BLOCK=BLOCK
        )
        if w.of_x is None:
            return emit.forward(x, memory, w, form).y, e, out
        return emit.excited(first[..., c:], with_e, w, form).y, e, out


@triton.jit
def push_kernel(key, f, value, keys, filters, values, count, active, B, P, N, S: tl.constexpr, BLOCK: tl.constexpr):
    """Write the entry of each active stream into the slot of its frame number."""
    b, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if tl.load(active + b) != 0:
        slot = tl.load(count + b) % S
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(keys + (slot * B + b) * N + at, tl.load(key + b * N + at, at < N), at < N)
        tl.store(values + (slot * B + b) * N + at, tl.load(value + b * N + at, at < N), at < N)
        tl.store(filters + (slot * B + b) * P + at, tl.load(f + b * P + at, at < P), at < P)


def _together(*weights: Tensor) -> Tensor:
    return torch.cat(weights).contiguous(memory_format=torch.channels_last)
