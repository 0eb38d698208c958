"""A HORST layer one frame at a time, in fixed buffers, so that a CUDA graph can replay it.

Convolutions that read the same map are merged. The ring is written in place, each stream at its own age.

Shapes: B streams, P = H * W pixels, C channels, C_in of the input, S states.
"""

# Triton compiles these functions from source: their arguments have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
# ruff: noqa: N803

import torch
import triton
import triton.language as tl
from torch import Tensor

from horst.ops.fused import emit, maps, norm, statt
from horst.ops.fused import filter as filters
from horst.ops.fused.layer import LayerForm, LayerWeights, at_position, cast, output_weights, recurrence_weights
from horst.ops.fused.statt import AttentionWeights, KVCache

BLOCK = 4096


class StepLayer:
    """One layer and its ring."""

    def __init__(self, given: LayerWeights, form: LayerForm, ring: KVCache) -> None:
        """`ring`: keys and values (S, B, P, C), filters (S, B, P); it is written to."""
        self.form, self.ring = form, ring
        w = cast(given, ring.keys.dtype, form)
        self.weights, self.queue, self.output = w, recurrence_weights(w), output_weights(w)
        order, b, p, c = ring.keys.shape
        self.attended = AttentionWeights.empty(ring.keys.new_empty(1, b, p, c), order, form.sizes.how.heads)
        self.of_x = w.x if self.output.of_x is None else _together(w.x, self.output.of_x)
        self.of_e = _together(w.q, w.observed)

    def __call__(
        self, x: Tensor, valid: Tensor, count: Tensor, active: Tensor, position: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One frame x (B, P, C_in): y, e and STATT (B, P, C); the ring keeps it for the streams that are active.

        `valid` (B, S) uint8 says which slots hold a state, `count` (B,) int64 how many frames each stream has seen,
        `active` (B,) uint8 which streams have a frame, `position` (B, C) is added as in `layer.run`.
        """
        w, sizes, (order, b, p, c) = self.weights, self.form.sizes, self.ring.keys.shape
        size = sizes.height, sizes.width
        first = maps.conv(x, self.of_x, *size)
        e, q, out, with_e, h, key, value = (x.new_empty(b, p, c) for _ in range(7))
        pooled, f, f_k = (self.ring.filters.new_empty(b, *s, p) for s in ((3,), (), ()))
        norm.norm(first[..., :c], w.x_norm, w.x_bias, (e,), act=sizes.act)
        second = maps.conv(at_position(e, position), self.of_e, *size)
        norm.norm(second[..., :c], w.q_norm, w.q_bias, (q,), pooled=pooled)
        filters.spatial_filter(pooled, w.filter_q, w.filter_q_bias, f, height=size[0], width=size[1])
        statt.attend(q, f, self.ring, valid, 0, 0, sizes.how, self.attended, out, e, with_e)
        memory = out
        if self.queue.h is not None and self.queue.h_norm is not None:
            norm.norm(maps.conv(with_e, self.queue.h, *size), *self.queue.h_norm, (h,), act=sizes.act)
            memory = h
        recurrent = maps.conv(memory, self.queue.recurrent, *size)
        norm.norm(second[..., c:], *self.queue.norm, (key, value), groups=2, add=recurrent, pooled=pooled)
        filters.spatial_filter(pooled, self.queue.filter, self.queue.filter_bias, f_k, height=size[0], width=size[1])
        push_kernel[b, triton.cdiv(p * c, BLOCK)](
            key, f_k, value, *self.ring, count, active, b, p, p * c, S=order, BLOCK=BLOCK
        )
        if self.output.of_x is None:
            y = emit.forward(x, memory, self.output, sizes).y
        else:
            y = emit.excited(first[..., c:], with_e, self.output, sizes).y
        return y, e, out


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
