"""The recurrence of a layer over a clip, forward and backward, on tensors.

Each frame depends on the previous one: STATT over the queue, then the convolution and norm that make its own entry.
Everything else runs at the end, in one large operation for all frames: the gradients of the queries and the weights.

Shapes: T frames of B maps, P pixels, C channels, S states, E = before + T entries; see `statt`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from horst.ops.fused import filter as filters
from horst.ops.fused import maps, norm, statt
from horst.ops.fused.norm import PooledGrad
from horst.ops.fused.statt import AttentionGrads, AttentionWeights, KVCache
from horst.ops.fused.weights import LayerForm, LayerWeights


class Tape(NamedTuple):
    """What the forward pass keeps."""

    statt: Tensor  # (T, B, P, C)
    with_e: Tensor  # (T, B, P, C): STATT + e
    memory: KVCache
    weights: AttentionWeights
    key_value: Tensor  # (T, B, P, 2C), keys and values before their norm
    stats: Tensor  # (T, B, 2, 2)
    pooled: Tensor  # (T, B, 3, P) of the keys
    h: Tensor  # (T, B, P, C); STATT if the queue keeps that
    h_stats: Tensor | None  # (T, B, 1, 2)
    h_pre: tuple[Tensor, ...]  # T times (B, P, C), h before its norm


def forward(
    q: Tensor, f_q: Tensor, e: Tensor, kv: Tensor, start: KVCache, valid: Tensor, w: LayerWeights, form: LayerForm
) -> Tape:
    """A clip of queries and encodings (T, B, P, C) with filters (T, B, P) float32, after the entries `start`.

    `kv` (T, B, P, 2C) is the part of keys and values that reads the observation; it is overwritten. `valid`
    (T, B, S) uint8: which entries of each window are present.
    """
    t, b, p, _ = q.shape
    before, order = start.keys.shape[0], valid.shape[2]
    memory = KVCache(*(x.new_empty(before + t, *x.shape[1:]) for x in start))
    for room, x in zip(memory, start, strict=True):
        room[:before] = x
    weights = AttentionWeights.empty(q, order, form.how.heads)
    out, with_e = torch.empty_like(q), torch.empty_like(q)
    stats, pooled = f_q.new_empty(t, b, 2, 2), f_q.new_empty(t, b, 3, p)
    h, h_stats, h_pre = out, None, []
    if w.h is not None:
        h, h_stats = torch.empty_like(q), f_q.new_empty(t, b, 1, 2)
    for i in range(t):
        statt.attend(q[i], f_q[i], memory, valid[i], i, i + before - order, form.how, weights, out[i], e[i], with_e[i])
        if w.h is not None and w.h_norm is not None and w.h_bias is not None and h_stats is not None:
            h_pre.append(maps.conv(with_e[i], w.h, form.size))
            norm.norm(h_pre[i], w.h_norm, w.h_bias, (h[i],), act=form.act, stats=h_stats[i])
        recurrent, entry = maps.conv(h[i], w.recurrent, form.size), (memory.keys[before + i], memory.values[before + i])
        norm.norm(kv[i], w.kv_norm, w.kv_bias, entry, groups=2, add=recurrent, pooled=pooled[i], stats=stats[i])
        filters.spatial_filter(pooled[i], w.filter_k, w.filter_k_bias, memory.filters[before + i], form.size)
    return Tape(out, with_e, memory, weights, kv, stats, pooled, h, h_stats, tuple(h_pre))


def again(tape: Tape, w: LayerWeights) -> Tape:
    """The tape with all keys and values, of which it has kept those before the clip: the others are computed again."""
    keys, filters, values = tape.memory
    t, before = len(tape.key_value), len(keys)
    all_keys, all_values = (m.new_empty(before + t, *m.shape[1:]) for m in (keys, values))
    all_keys[:before], all_values[:before] = keys, values
    entries = all_keys[before:].flatten(0, 1), all_values[before:].flatten(0, 1)
    norm.apply(tape.key_value.flatten(0, 1), tape.stats.flatten(0, 1), w.kv_norm, w.kv_bias, entries, groups=2)
    return tape._replace(memory=KVCache(all_keys, filters, all_values))


class RecurrenceGrads(NamedTuple):
    """The result of the backward pass."""

    q: Tensor  # (T, B, P, C)
    f_q: Tensor  # (T, B, P), before the filter's sigmoid
    with_e: Tensor | None  # (T, B, P, C), the gradient of e through h; None if h does not read e
    key_value: Tensor  # (T, B, P, 2C)
    start: KVCache
    weights: dict[str, Tensor]


class ResultGrads(NamedTuple):
    """Gradients of what the recurrence returns; None if there is none."""

    statt: Tensor | None
    h: Tensor | None
    memory: KVCache | None  # of all entries, including those before the clip


def backward(
    given: ResultGrads, q: Tensor, f_q: Tensor, tape: Tape, valid: Tensor, w: LayerWeights, form: LayerForm
) -> RecurrenceGrads:
    """From the gradients of STATT, of h (if the queue keeps h) and of the entries."""
    t, b, p, c = q.shape
    memory = tape.memory
    before, order = memory.keys.shape[0] - t, valid.shape[2]
    weight_grads = AttentionGrads.like(tape.weights)
    total, d_kv = torch.empty_like(q), torch.empty_like(tape.key_value)
    partials = f_q.new_empty(t, b, norm.partial_blocks(p, 2 * c, 2), 2 * c, 2)
    d_filter = torch.empty_like(f_q)
    d_entry = [q.new_empty(b, p, c) for _ in range(2)]
    d_with_e: list[Tensor] = []  # latest first
    d_h_pre = torch.empty_like(q if w.h is not None else q[:0])
    h_partials = f_q.new_empty(len(d_h_pre), b, norm.partial_blocks(p, c), c, 2)

    def more(i: int) -> KVCache | None:
        return None if given.memory is None else KVCache(*(x[i] for x in given.memory))

    for i in reversed(range(t)):
        entry = KVCache(d_entry[0], d_filter[i], d_entry[1])
        statt.entry_backward(
            before + i, total, q, f_q, memory, before, valid, tape.weights, weight_grads, entry, more(before + i),
            slope=True,
        )  # fmt: skip
        pooled = PooledGrad(d_filter[i], w.filter_k, memory.keys[before + i], tape.pooled[i], form.size[1])
        norm.norm_backward(
            (entry.keys, entry.values), tape.key_value[i], tape.stats[i], w.kv_norm, w.kv_bias, d_kv[i], partials[i],
            groups=2, pooled_grad=pooled,
        )  # fmt: skip
        d_h = maps.conv_input_grad(d_kv[i], tape.h[i], w.recurrent, form.size)
        extra = None if given.statt is None else given.statt[i]
        if w.h is not None and w.h_norm is not None and w.h_bias is not None and tape.h_stats is not None:
            if given.h is not None:
                d_h += given.h[i]
            kept = (tape.h_pre[i], tape.h_stats[i], w.h_norm, w.h_bias)
            norm.norm_backward((d_h,), *kept, d_h_pre[i], h_partials[i], act=form.act)
            d_h = maps.conv_input_grad(d_h_pre[i], tape.with_e[i], w.h, form.size)
            d_with_e.append(d_h)
        statt.attend_backward(
            d_h, extra, total[i], memory, valid[i], i, i + before - order, form.how, tape.weights, weight_grads
        )
    start = KVCache(*(torch.empty_like(x[:before]) for x in memory))
    for i in range(before):
        entry = KVCache(*(x[i] for x in start))
        statt.entry_backward(
            i, total, q, f_q, memory, before, valid, tape.weights, weight_grads, entry, more(i), slope=False
        )
    d_q, d_f = statt.query_backward(f_q, memory, before, valid, tape.weights, weight_grads)
    d_u, grads = None, {"recurrent": maps.conv_weight_grad(d_kv, tape.h, w.recurrent, form.size)}
    d_filter, pooled_keys = d_filter.flatten(0, 1), tape.pooled.flatten(0, 1)
    grads["filter_k"], grads["filter_k_bias"] = filters.filter_weight_grad(d_filter, pooled_keys, form.size)
    if w.h is not None:
        d_u = total if given.statt is None else torch.stack(d_with_e[::-1])
        grads["h"] = maps.conv_weight_grad(d_h_pre, tape.with_e, w.h, form.size)
        grads["h_norm"], grads["h_bias"] = norm.norm_grads(h_partials)
    grads["kv_norm"], grads["kv_bias"] = norm.norm_grads(partials)
    return RecurrenceGrads(d_q, d_f, d_u, d_kv, start, grads)
