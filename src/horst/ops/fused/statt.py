"""STATT over cached keys and values, forward and backward, without products of maps in memory.

    attend            one frame: K and V of the window are read once each
    attend_backward   one frame: the gradient of its weights, K and V are read once each
    entry_backward    one entry: gathered from the up to S frames that attended to it
    query_backward    all frames at once: a frame's query does not depend on another's gradient

The backward pass of a clip runs over its frames in reverse: the gradient of an entry is complete when all frames after
it are done. No gradient is accumulated in memory, as the S readers of each entry would otherwise do.

Shapes: T frames of B maps, P pixels, C channels, S states, E kept entries: `before` of them lie before the clip, frame
t attends to the entries t + before - S ... t + before - 1 and adds entry t + before. Layout: `statt_kernels`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import triton
from torch import Tensor

from horst.ops.fused import statt_kernels as kernels
from horst.ops.fused.tuning import LAUNCHES

Q_HAT_CHUNK, Q_HAT_CHANNELS, Q_HAT_PIXELS = 512, 32, 64
SUM_BLOCKS, SUM_CHANNELS = 64, 32


class AttentionForm(NamedTuple):
    """Which form of attention."""

    scale: float  # factor of the temporal logits
    heads: int = 1  # each has its share of the channels, like a separate map; all share the filters
    spatial: bool = True  # with S(Q, K); otherwise all pixels of a state have the same weight
    share: Literal["none", "present", "order"] = "none"  # equal weights of the present states, or 1 / S, not T(Q, K)


class KVCache(NamedTuple):
    """The entries of the queue."""

    keys: Tensor  # (E, B, P, C)
    filters: Tensor  # (E, B, P) float32
    values: Tensor  # (E, B, P, C)


class AttentionWeights(NamedTuple):
    """What the forward pass keeps of T frames for the backward pass; float32. A head is a map of C channels."""

    spatial: Tensor  # (T, B, S, P)
    temporal: Tensor  # (T, B, S)
    dots: Tensor  # (T, B, S, P): q . K, pixel by pixel
    q_hat: Tensor  # (T, B, S, C)

    @classmethod
    def empty(cls, q: Tensor, order: int, heads: int = 1) -> AttentionWeights:
        """For queries (T, B, P, C)."""
        t, b, p, c = q.shape

        def new(*shape: int) -> Tensor:
            return torch.empty(t, b * heads, order, *shape, dtype=torch.float32, device=q.device)

        return cls(new(p), new(), new(p), new(c // heads))


class AttentionGrads(NamedTuple):
    """The gradients of the weights of T frames; float32. A head is a map of C channels."""

    where: Tensor  # (T, B, S, P), at the logits of S(Q, K)
    slope: Tensor  # (T, B, S), at q . K weighted by both filters
    q_hat: Tensor  # (T, B, S, C)

    @classmethod
    def like(cls, weights: AttentionWeights) -> AttentionGrads:
        return cls(*(torch.empty_like(w) for w in (weights.spatial, weights.temporal, weights.q_hat)))


def attend(
    q: Tensor, f_q: Tensor, memory: KVCache, valid: Tensor, t: int, first: int, how: AttentionForm,
    weights: AttentionWeights, out: Tensor, plus: Tensor | None = None, with_plus: Tensor | None = None,
) -> None:  # fmt: skip
    """Eq. (7) of frame t, from q (B, P, C) and f_q (B, P) float32: fills out (B, P, C) with STATT, `with_plus` with
    STATT + `plus` if there is one, and weights[t].

    `first` is the first entry of the window, `valid` (B, S) uint8 says which are present; others may be outside of the
    memory.
    """
    (b, p, _), order, c = q.shape, valid.shape[1], q.shape[2] // how.heads
    spatial, temporal, dots, q_hat = (w[t] for w in weights)
    maps = b * how.heads
    s_pad = max(16, triton.next_power_of_2(order))
    chunks, columns = triton.cdiv(p, Q_HAT_CHUNK), triton.cdiv(c, Q_HAT_CHANNELS)
    parts = q_hat if chunks == 1 else f_q.new_empty(maps, chunks, order, c)
    kernels.q_hat_kernel[(maps, columns, chunks)](
        q, memory.filters, valid, parts, first, b, p, c, HEADS=how.heads,
        S=order, SP=s_pad, BP=Q_HAT_PIXELS, BC=Q_HAT_CHANNELS, CHUNK=Q_HAT_CHUNK, EXACT=q.dtype == torch.float32,
    )  # fmt: skip
    if chunks > 1:
        n = order * c
        kernels.sum_parts_kernel[(maps, triton.cdiv(n, 256))](parts, q_hat, n, COUNT=chunks, BN=256)
    blocks = triton.cdiv(p, LAUNCHES["logits"].pixels(c))
    logits = f_q.new_empty(maps, blocks, order)
    kernels.logits_kernel[(maps, blocks)](
        q, f_q, q_hat, memory.keys, memory.filters, valid, spatial, dots, logits, first, b, p, c,
        HEADS=how.heads, NB=blocks, S=order, SPATIAL=how.spatial, **_sizes("logits", c),
    )  # fmt: skip
    kernels.combine_kernel[_grid("combine", maps, p, c)](
        memory.values, spatial, logits, valid, plus, out, with_plus, temporal, first, b, p, c, how.scale,
        HEADS=how.heads, NB=blocks, S=order, SP=s_pad, PLUS=plus is not None, SHARE=how.share, **_sizes("combine", c),
    )  # fmt: skip


def attend_backward(
    grad: Tensor, more: Tensor | None, total: Tensor, memory: KVCache, valid: Tensor, t: int, first: int,
    how: AttentionForm, weights: AttentionWeights, grads: AttentionGrads,
) -> None:  # fmt: skip
    """Fills grads[t] from the gradient of STATT at frame t, `grad` (+ `more`), which is written to `total`."""
    (b, p, _), order, c = grad.shape, valid.shape[1], grad.shape[2] // how.heads
    maps = b * how.heads
    blocks = triton.cdiv(p, LAUNCHES["reader"].pixels(c))
    d_temporal, parts = (grads.slope.new_empty(maps, blocks, order, *rest) for rest in ((), (c,)))
    kernels.reader_kernel[(maps, blocks)](
        grad, more, total, memory.keys, memory.values, valid, weights.spatial[t],
        weights.temporal[t], grads.where[t], d_temporal, parts, first, b, p, c,
        HEADS=how.heads, NB=blocks, S=order, MORE=more is not None, **_sizes("reader", c),
    )  # fmt: skip
    kernels.reader_sums_kernel[(maps, order, triton.cdiv(c, SUM_CHANNELS))](
        d_temporal, parts, weights.temporal[t], grads.slope[t], grads.q_hat[t], c, how.scale,
        NB=blocks, S=order, SP=triton.next_power_of_2(order), BN=SUM_BLOCKS, BC=SUM_CHANNELS, SHARE=how.share,
    )  # fmt: skip


def entry_backward(
    i: int, grad: Tensor, q: Tensor, f_q: Tensor, memory: KVCache, before: int, valid: Tensor,
    weights: AttentionWeights, grads: AttentionGrads, out: KVCache, more: KVCache | None = None, *, slope: bool,
) -> None:  # fmt: skip
    """The gradient of entry i (+ `more`) into `out` (B, ...), after `attend_backward` of all its readers.

    `grad` (T, B, P, C) is `total` of `attend_backward` of all frames; q (T, B, P, C), f_q (T, B, P) and valid (T, B, S)
    are those of the clip, `grads` are needed of the frames after the entry. `slope`: take the filter's gradient before
    its sigmoid.
    """
    t, b, p, _ = q.shape
    order, c = valid.shape[2], weights.q_hat.shape[3]
    heads = q.shape[3] // c
    first = max(0, i - before + 1)
    extra = (None, None, None) if more is None else more
    by_head = out.filters if heads == 1 else out.filters.new_empty(b, heads, p)
    kernels.entry_kernel[_grid("entry", b * heads, p, c)](
        grad, q, f_q, memory.filters, valid, *weights, *grads, out.keys, by_head, out.values, *extra,
        i, first, t, before, b, p, c, HEADS=heads, S=order, MORE=more is not None, SLOPE=slope, **_sizes("entry", c),
    )  # fmt: skip
    if heads > 1:
        torch.sum(by_head, 1, out=out.filters)


def query_backward(
    f_q: Tensor, memory: KVCache, before: int, valid: Tensor, weights: AttentionWeights, grads: AttentionGrads
) -> tuple[Tensor, Tensor]:
    """The gradient of all queries (T, B, P, C), and of their filters before the sigmoid (T, B, P)."""
    (t, b, p), c = f_q.shape, weights.q_hat.shape[3]
    heads = memory.keys.shape[3] // c
    d_q, d_f = memory.keys.new_empty(t, b, p, heads * c), f_q.new_empty(t, b, heads, p)
    kernels.query_kernel[_grid("query", t * b * heads, p, c)](
        memory.keys, f_q, memory.filters, valid, weights.dots, grads.slope, grads.q_hat, d_q, d_f, before, b, p, c,
        HEADS=heads, S=valid.shape[2], **_sizes("query", c),
    )  # fmt: skip
    return d_q, d_f[:, :, 0] if heads == 1 else d_f.sum(2)


def _grid(kernel: str, maps: int, pixels: int, channels: int) -> tuple[int, int]:
    return maps, triton.cdiv(pixels, LAUNCHES[kernel].pixels(channels))


def _sizes(kernel: str, channels: int) -> dict[str, int]:
    launch, padded = LAUNCHES[kernel], triton.next_power_of_2(channels)
    return {"BP": launch.pixels(channels), "CP": padded, "STAGES": launch.stages, "num_warps": launch.warps}
