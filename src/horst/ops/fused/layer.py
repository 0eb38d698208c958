"""A whole HORST layer over a clip as one autograd function.

Autograd would keep every intermediate result and accumulate gradients one by one. As one function the layer keeps only
what its backward pass needs, runs everything that is not recurrent over all frames at once, and casts its weights once.

Shapes: T frames of B maps in time-major order, N = T * B; P = H * W pixels, C channels, C_in of the input, S states.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from horst.ops.fused import emit, maps, norm, recurrence
from horst.ops.fused import filter as filters
from horst.ops.fused.norm import PooledGrad
from horst.ops.fused.recurrence import Norm, RecurrenceWeights, ResultGrads, Sizes, Tape, norm_grads
from horst.ops.fused.statt import AttentionWeights, KVCache


class LayerWeights(NamedTuple):
    """The parameters of a layer, as its modules have them."""

    x: Tensor
    x_norm: Tensor
    x_bias: Tensor
    q: Tensor
    q_norm: Tensor
    q_bias: Tensor
    filter_q: Tensor
    filter_q_bias: Tensor
    observed: Tensor
    recurrent: Tensor
    kv_norm: Tensor
    kv_bias: Tensor
    filter_k: Tensor
    filter_k_bias: Tensor
    h: Tensor | None
    h_norm: Tensor | None
    h_bias: Tensor | None
    y: Tensor
    y_norm: Tensor
    y_bias: Tensor
    project: Tensor | None
    squeeze: Tensor | None
    squeeze_bias: Tensor | None
    excite: Tensor | None
    excite_bias: Tensor | None


class LayerForm(NamedTuple):
    """The options of a layer, and the size of its maps."""

    sizes: Sizes
    max_first: bool
    """The order of the pooled pair in the filters' weights."""


class LayerResult(NamedTuple):
    """The result of a layer. Maps are (N, P, C), entries (E, B, ...)."""

    y: Tensor
    e: Tensor
    statt: Tensor
    keys: Tensor
    filters: Tensor
    values: Tensor
    spatial: Tensor
    """(T, B * heads, S, P)"""
    temporal: Tensor
    """(T, B * heads, S)"""


def run(
    x: Tensor, start: KVCache, valid: Tensor, weights: LayerWeights, form: LayerForm, position: Tensor | None = None
) -> LayerResult:
    """A clip x (N, P, C_in) after the entries `start`; valid (T, B, S) uint8 says which entries are present.

    `position` (N, C) is added to the input of queries, keys and values.
    """
    return LayerResult(*Layer.apply(form, x, *start, valid, position, *weights))


def at_position(e: Tensor, position: Tensor | None) -> Tensor:
    """e (N, P, C) with its position (N, C), rounded once."""
    return e if position is None else (e.float() + position.float().unsqueeze(1)).to(e.dtype)


class Layer(torch.autograd.Function):
    """Inputs and outputs as in `run`. The attention weights have no gradient."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx: Any, form: LayerForm, x: Tensor, keys: Tensor, f_k: Tensor, values: Tensor, valid: Tensor,
        position: Tensor | None, *rest: Any,
    ):  # fmt: skip
        given = LayerWeights(*rest)
        with torch.autocast(x.device.type, enabled=False):
            w = cast(given, x.dtype, form)
            size = form.sizes.height, form.sizes.width
            t, b, _ = valid.shape

            def by_frame(m: Tensor) -> Tensor:
                return m.unflatten(0, (t, b))

            e_pre = maps.conv(x, w.x, *size)
            e = torch.empty_like(e_pre)
            e_stats = norm.norm(e_pre, w.x_norm, w.x_bias, (e,), act=form.sizes.act)
            located = at_position(e, position)
            q_pre = maps.conv(located, w.q, *size)
            q = torch.empty_like(q_pre)
            pooled, f_q = (torch.empty(*s, dtype=torch.float32, device=x.device) for s in _filter_sizes(q))
            q_stats = norm.norm(q_pre, w.q_norm, w.q_bias, (q,), pooled=pooled)
            filters.spatial_filter(pooled, w.filter_q, w.filter_q_bias, f_q, height=size[0], width=size[1])
            tape = recurrence.forward(
                by_frame(q), by_frame(f_q), by_frame(e), by_frame(maps.conv(located, w.observed, *size)),
                KVCache(keys, f_k, values), valid, recurrence_weights(w), form.sizes,
            )  # fmt: skip
            memory = tape.with_e if w.h is None else tape.h
            out = emit.forward(x, memory.flatten(0, 1), output_weights(w), form.sizes)
        done = LayerResult(
            out.y, e, tape.statt.flatten(0, 1), *tape.memory, tape.weights.spatial, tape.weights.temporal
        )
        ctx.mark_non_differentiable(done.spatial, done.temporal)
        ctx.set_materialize_grads(False)
        ctx.form, ctx.given = form, [None if p is None else p.dtype for p in given]
        ctx.save_for_backward(
            x, valid, e_pre, e, None if located is e else located, e_stats, q_pre, q, q_stats, pooled, f_q,
            *w, *emit.flat(out), *tape[:2], *tape.memory, *tape.weights, *tape[4:9], *tape.h_pre,
        )  # fmt: skip
        return tuple(done)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any):  # type: ignore[no-untyped-def]
        form: LayerForm = ctx.form
        x, valid, e_pre, e, located, e_stats, q_pre, q, q_stats, pooled, f_q, *rest = ctx.saved_tensors
        located = e if located is None else located
        w, rest = LayerWeights(*rest[: len(LayerWeights._fields)]), rest[len(LayerWeights._fields) :]
        out, rest = emit.unflat(rest[: emit.KEPT]), rest[emit.KEPT :]
        memory, attended = KVCache(*rest[2:5]), AttentionWeights(*rest[5:9])
        tape = Tape._make((*rest[:2], memory, attended, *rest[9:14], tuple(rest[14:])))
        size = form.sizes.height, form.sizes.width
        t, b, _ = valid.shape

        def by_frame(m: Tensor) -> Tensor:
            return m.unflatten(0, (t, b))

        given = LayerResult(*grads)
        held = tape.with_e if w.h is None else tape.h
        d_y = torch.zeros_like(out.y) if given.y is None else given.y.contiguous()
        with torch.autocast(x.device.type, enabled=False):
            output = emit.backward(d_y, x, held.flatten(0, 1), out, output_weights(w), form.sizes)
            d_statt = None if given.statt is None else by_frame(given.statt.contiguous())
            d_memory = by_frame(output.memory)
            if w.h is None:
                d_statt, d_held = d_memory if d_statt is None else d_statt + d_memory, None
            else:
                d_held = d_memory
            entries = [given.keys, given.filters, given.values]
            past = None
            if any(g is not None for g in entries):
                kept = zip(entries, memory, strict=True)
                past = KVCache(*(torch.zeros_like(m) if g is None else g.contiguous() for g, m in kept))
            back = recurrence.backward(
                ResultGrads(d_statt, d_held, past),
                by_frame(q),
                by_frame(f_q),
                tape,
                valid,
                recurrence_weights(w),
                form.sizes,
            )
            d_q_pre, partials = torch.empty_like(q), f_q.new_empty(_partials(q))
            d_f_q = back.f_q.flatten(0, 1)
            pooled_grad = PooledGrad(d_f_q, w.filter_q, q, pooled, size[1])
            norm.norm_backward(
                (back.q.flatten(0, 1),), q_pre, q_stats, w.q_norm, w.q_bias, d_q_pre, partials, pooled_grad=pooled_grad
            )
            q_norm = norm_grads(partials)
            filter_q, filter_q_bias = filters.filter_weight_grad(d_f_q, pooled, *size)
            d_e, d_q = maps.conv_grads(d_q_pre, located, w.q, *size)
            more, d_observed = maps.conv_grads(back.key_value, located, w.observed, *size)
            for extra in (more, back.with_e, output.memory if w.h is None else None, given.e):
                if extra is not None:
                    d_e += extra.reshape(d_e.shape)
            d_e_pre, partials = torch.empty_like(e), f_q.new_empty(_partials(e))
            norm.norm_backward((d_e,), e_pre, e_stats, w.x_norm, w.x_bias, d_e_pre, partials, act=form.sizes.act)
            d_x, d_x_conv = maps.conv_grads(d_e_pre, x, w.x, *size)
            d_x += output.x
        d_output = output.weights
        d_y_conv = d_output.conv if d_output.of_x is None else torch.cat([d_output.of_x, d_output.conv], 1)
        weights = LayerWeights._make((
            d_x_conv, *norm_grads(partials), d_q, *q_norm, filter_q, filter_q_bias, d_observed, back.queue.recurrent,
            *back.queue.norm, back.queue.filter, back.queue.filter_bias, back.queue.h,
            *(back.queue.h_norm or (None, None)), d_y_conv, *d_output[2:],
        ))  # fmt: skip
        return None, d_x, *back.start, None, None, *_uncast(weights, ctx.given, form)


def cast(given: LayerWeights, dtype: torch.dtype, form: LayerForm) -> LayerWeights:
    """Convolutions in the maps' dtype and channels-last; the filters as (2, 3, 3), max first; the rest float32."""
    w = given._asdict()
    for name, p in w.items():
        if p is None:
            continue
        if name in ("filter_q", "filter_k"):
            p = p.squeeze(0) if form.max_first else p.squeeze(0).flip(0)
        if p.ndim == 4 and name not in ("squeeze", "excite"):
            w[name] = p.to(dtype).contiguous(memory_format=torch.channels_last)
        else:
            w[name] = p.float().contiguous()
    return LayerWeights(**w)


def _uncast(grads: LayerWeights, dtypes: list[torch.dtype | None], form: LayerForm) -> list[Tensor | None]:
    found = grads._asdict()
    for name in ("filter_q", "filter_k"):
        found[name] = (found[name] if form.max_first else found[name].flip(0)).unsqueeze(0)
    return [None if g is None or d is None else g.to(d) for g, d in zip(found.values(), dtypes, strict=True)]


def recurrence_weights(w: LayerWeights) -> RecurrenceWeights:
    h_norm = None if w.h_norm is None or w.h_bias is None else Norm(w.h_norm, w.h_bias)
    return RecurrenceWeights(w.recurrent, Norm(w.kv_norm, w.kv_bias), w.filter_k, w.filter_k_bias, w.h, h_norm)


def output_weights(w: LayerWeights) -> emit.OutputWeights:
    """The release convolves [x; m] with one weight; here it is split in two."""
    conv, of_x = w.y, None
    if w.squeeze is not None:
        parts = conv.split([w.x.shape[1], w.x.shape[0]], 1)
        of_x, conv = (part.contiguous(memory_format=torch.channels_last) for part in parts)
    return emit.OutputWeights._make((conv, of_x, *w[LayerWeights._fields.index("y") + 1 :]))


def _filter_sizes(q: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    n, p, _ = q.shape
    return (n, 3, p), (n, p)


def _partials(x: Tensor) -> tuple[int, int, int, int]:
    n, p, c = x.shape
    return n, norm.partial_blocks(p, c), c, 2
