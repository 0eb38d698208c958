"""A whole HORST layer over a clip as one autograd function.

Autograd would keep every intermediate result and accumulate gradients one by one. As one function the layer keeps only
what its backward pass needs, runs everything that is not recurrent over all frames at once, and casts its weights once.
Of each norm only the input and the statistics are kept: the backward pass computes e, queries, keys and values again,
which takes 1.5% of a step and saves 13% of the memory.

Shapes: T frames of B maps in time-major order, N = T * B; P = H * W pixels, C channels, C_in of the input, S states.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from horst.ops.fused import emit, maps, norm, recurrence
from horst.ops.fused import filter as filters
from horst.ops.fused.norm import PooledGrad
from horst.ops.fused.recurrence import ResultGrads
from horst.ops.fused.statt import KVCache
from horst.ops.fused.weights import LayerForm, LayerWeights, uncast


class LayerResult(NamedTuple):
    """The result of a layer. Maps are (N, P, C), entries (E, B, ...)."""

    y: Tensor
    e: Tensor
    statt: Tensor
    keys: Tensor
    filters: Tensor
    values: Tensor
    spatial: Tensor  # (T, B * heads, S, P)
    temporal: Tensor  # (T, B * heads, S)


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
        given, (n, p, _), (t, b, _) = LayerWeights(*rest), x.shape, valid.shape

        def by_frame(m: Tensor) -> Tensor:
            return m.unflatten(0, (t, b))

        with torch.autocast(x.device.type, enabled=False):
            w = given.cast(x.dtype, form)
            e_pre = maps.conv(x, w.x, form.size)
            e = torch.empty_like(e_pre)
            e_stats = norm.norm(e_pre, w.x_norm, w.x_bias, (e,), act=form.act)
            located = at_position(e, position)
            q_pre = maps.conv(located, w.q, form.size)
            q = torch.empty_like(q_pre)
            pooled, f_q = (torch.empty(s, dtype=torch.float32, device=x.device) for s in ((n, 3, p), (n, p)))
            q_stats = norm.norm(q_pre, w.q_norm, w.q_bias, (q,), pooled=pooled)
            filters.spatial_filter(pooled, w.filter_q, w.filter_q_bias, f_q, form.size)
            tape = recurrence.forward(
                by_frame(q), by_frame(f_q), by_frame(e), by_frame(maps.conv(located, w.observed, form.size)),
                KVCache(keys, f_k, values), valid, w, form,
            )  # fmt: skip
            memory = tape.with_e if w.h is None else tape.h
            out = emit.forward(x, memory.flatten(0, 1), w.split_output(), form)
        done = LayerResult(out.y, e, tape.statt.flatten(0, 1), *tape.memory, *tape.weights[:2])
        ctx.mark_non_differentiable(done.spatial, done.temporal)
        ctx.set_materialize_grads(False)
        ctx.form, ctx.given = form, [None if p is None else p.dtype for p in given]
        out = out._replace(y=out.pre)  # only its shape is needed
        tape = tape._replace(memory=KVCache(keys, tape.memory.filters, values))  # the others are computed again
        kept, ctx.structure = pytree.tree_flatten(
            (x, valid, position, e_pre, e_stats, q_pre, q_stats, pooled, f_q, w, out, tape)
        )
        ctx.save_for_backward(*kept)
        return tuple(done)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any):  # type: ignore[no-untyped-def]
        form: LayerForm = ctx.form
        x, valid, position, e_pre, e_stats, q_pre, q_stats, pooled, f_q, w, out, tape = pytree.tree_unflatten(
            ctx.saved_tensors, ctx.structure
        )
        t, b, _ = valid.shape

        def by_frame(m: Tensor) -> Tensor:
            return m.unflatten(0, (t, b))

        given = LayerResult(*grads)
        held = tape.with_e if w.h is None else tape.h
        d_y = torch.zeros_like(out.y) if given.y is None else given.y.contiguous()
        with torch.autocast(x.device.type, enabled=False):
            output = emit.backward(d_y, x, held.flatten(0, 1), out, w.split_output(), form)
            tape = recurrence.again(tape, w)
            q = norm.apply(q_pre, q_stats, w.q_norm, w.q_bias)
            d_statt = None if given.statt is None else by_frame(given.statt.contiguous())
            d_memory = by_frame(output.memory)
            if w.h is None:
                d_statt, d_held = d_memory if d_statt is None else d_statt + d_memory, None
            else:
                d_held = d_memory
            entries = [given.keys, given.filters, given.values]
            past = None
            if any(g is not None for g in entries):
                kept = zip(entries, tape.memory, strict=True)
                past = KVCache(*(torch.zeros_like(m) if g is None else g.contiguous() for g, m in kept))
            d_result = ResultGrads(d_statt, d_held, past)
            back = recurrence.backward(d_result, by_frame(q), by_frame(f_q), tape, valid, w, form)
            del tape, held  # their memory is needed below
            d_f_q = back.f_q.flatten(0, 1)
            d_q_pre, partials = norm.norm_backward(
                (back.q.flatten(0, 1),), q_pre, q_stats, w.q_norm, w.q_bias,
                pooled_grad=PooledGrad(d_f_q, w.filter_q, q, pooled, form.size[1]),
            )  # fmt: skip
            d_w = {**output.weights, **back.weights}
            d_w["q_norm"], d_w["q_bias"] = norm.norm_grads(partials)
            d_w["filter_q"], d_w["filter_q_bias"] = filters.filter_weight_grad(d_f_q, pooled, form.size)
            located = at_position(norm.apply(e_pre, e_stats, w.x_norm, w.x_bias, act=form.act), position)
            d_e, d_w["q"] = maps.conv_grads(d_q_pre, located, w.q, form.size)
            more, d_w["observed"] = maps.conv_grads(back.key_value, located, w.observed, form.size)
            for extra in (more, back.with_e, output.memory if w.h is None else None, given.e):
                if extra is not None:
                    d_e += extra.reshape(d_e.shape)
            d_e_pre, partials = norm.norm_backward((d_e,), e_pre, e_stats, w.x_norm, w.x_bias, act=form.act)
            d_x, d_w["x"] = maps.conv_grads(d_e_pre, x, w.x, form.size)
            d_x += output.x
        d_w["x_norm"], d_w["x_bias"] = norm.norm_grads(partials)
        return None, d_x, *back.start, None, None, *uncast(d_w, ctx.given, form)
