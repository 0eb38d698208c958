"""A HORST layer over a clip, or frame by frame, with the kernels of `horst.ops.fused`. This module needs Triton.

Shapes: B batch, T frames, S past states, C channels, H x W map after the layer's pooling.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from horst.layers.blocks import FF, ResidualOutput, sinusoidal
from horst.layers.cell import HORSTCell
from horst.layers.state import Entry, LayerState, in_order, ring_of, valid_windows
from horst.ops.fused.layer import LayerResult, run
from horst.ops.fused.maps import picture, pixels
from horst.ops.fused.pool import max_pool
from horst.ops.fused.statt import AttentionForm, KVCache
from horst.ops.fused.step import StepLayer
from horst.ops.fused.weights import LayerForm, LayerWeights


def clip(
    cell: HORSTCell, x: Tensor, state: LayerState | None, lengths: Sequence[int], *, need_state: bool = True
) -> tuple[tuple[Tensor, ...], LayerState | None]:
    """A clip x (B, T, C_in, H_in, W_in): the fields of a `CellOutput`, and the state after it if it is needed."""
    order = cell.config.order
    b, t = x.shape[:2]
    frames = x.permute(1, 0, 3, 4, 2).flatten(0, 1).permute(0, 3, 1, 2)  # time-major and channels-last in one copy
    if torch.is_autocast_enabled(x.device.type):
        frames = frames.to(torch.get_autocast_dtype(x.device.type))
    if cell.stride > 1:
        frames = max_pool(frames, cell.stride)
    height, width = frames.shape[-2:]
    count, start = _start(cell, state, b, height, width, frames.dtype)
    windows = valid_windows(count, t, order).to(torch.uint8)
    form = layer_form(cell, height, width)
    done = run(pixels(frames), start, windows, weights(cell), form, position(cell, count, t))
    after = None
    if need_state:
        after = _after(done, state, count, lengths, order, form.size, cell.key_value.norm.weight.dtype)

    def clips(m: Tensor) -> Tensor:
        return m.view(t, b, height, width, -1).permute(1, 0, 4, 2, 3)

    spatial, temporal = (over_heads(w, cell.config.heads).transpose(0, 1) for w in (done.spatial, done.temporal))
    spatial = spatial.unflatten(-1, (height, width))
    return (clips(done.y), clips(done.e), clips(done.statt), spatial, temporal), after


def over_heads(weights: Tensor, heads: int) -> Tensor:
    """(T, B * heads, ...) -> (T, B, ...), the mean over heads."""
    return weights if heads == 1 else weights.unflatten(1, (-1, heads)).mean(2)


def _after(
    done: LayerResult, state: LayerState | None, count: Tensor, lengths: Sequence[int], order: int,
    size: tuple[int, int], dtype: torch.dtype,
) -> LayerState:  # fmt: skip
    """The state after a clip, from its entries and those before it: one without a `state`, otherwise S."""
    before, n = 1 if state is None else order, lengths[0]

    def pictures(m: Tensor) -> Tensor:
        """(..., B, P, C) -> (..., B, C, H, W)"""
        return m.unflatten(-2, size).movedim(-1, -3)

    if state is None and set(lengths) == {n} and n + before >= order:  # rotate the window into a ring: two copies

        def ring(m: Tensor) -> Tensor:
            window, turn = m[n + before - order : n + before], n % order
            slots = m.new_empty(window.shape, dtype=dtype)
            slots[turn:], slots[:turn] = window[: order - turn], window[order - turn :]
            return slots.transpose(0, 1)

        keys, filters, values = (ring(m) for m in (done.keys, done.filters, done.values))
        return LayerState(pictures(keys), filters.unflatten(2, size), pictures(values), count + n)
    keys, values, filters = pictures(done.keys), pictures(done.values), done.filters.unflatten(2, size)
    entries = list(itertools.starmap(Entry, zip(keys, filters, values, strict=True)))
    if before < order:  # slots that were never filled are zero
        entries = [Entry(*(torch.zeros_like(m) for m in entries[0]))] * (order - before) + entries
    after = ring_of(entries, lengths, count, order, fresh=state is None)
    return LayerState(after.keys.to(dtype), after.filters.to(dtype), after.values.to(dtype), after.count)


def weights(cell: HORSTCell) -> LayerWeights:
    """The parameters of a layer under the names of the kernels."""

    def block(ff: FF | None) -> tuple[Tensor | None, ...]:
        """The convolution's weight, and the norm's weight and bias."""
        return (None, None, None) if ff is None else tuple(ff.parameters())

    out, kv = cell.output, cell.key_value
    project: Tensor | None = None
    excited: list[Tensor | None] = [None] * 4
    if isinstance(out, ResidualOutput):
        project = getattr(out.project, "weight", None)
    else:
        excited = [p for linear in (out.se.squeeze, out.se.excite) for p in (linear.weight, linear.bias)]
    assert cell.filter_k is not None
    # Without T(Q, K) the query's filter has no effect and no gradient: any one works.
    look = cell.filter_k.conv if cell.filter_q is None else cell.filter_q.conv
    observed, recurrent = kv.observed.weight, kv.recurrent.weight
    if kv.split:  # each convolution computes one of the two
        nothing = torch.zeros_like(observed)
        observed, recurrent = torch.cat([observed, nothing]), torch.cat([nothing, recurrent])
    return LayerWeights._make((
        *block(cell.ff_x), *block(cell.ff_q), look.weight, look.bias,
        observed, recurrent, kv.norm.weight, kv.norm.bias,
        cell.filter_k.conv.weight, cell.filter_k.conv.bias, *block(cell.ff_h), *block(out.ff), project, *excited, None,
    ))  # fmt: skip


def layer_form(cell: HORSTCell, height: int, width: int) -> LayerForm:
    """The options of a layer, for maps of height x width."""
    config = cell.config
    assert config.activation is not None
    size = cell.channels // config.heads * (height * width if config.temporal_scale == "chw" else 1)
    share = config.spatial_weight if config.attention == "spatial" else "none"
    how = AttentionForm(size**-0.5, config.heads, config.attention != "temporal", share)
    return LayerForm((height, width), how, config.activation, config.pooled_pair == "max,avg")


def position(cell: HORSTCell, before: Tensor, frames: int) -> Tensor | None:
    """The position encoding of T frames after (B,) frames, (T * B, C); None if there is none."""
    if cell.config.position == "none":
        return None
    number = before + torch.arange(frames, device=before.device).unsqueeze(1)
    return sinusoidal(number.flatten(), cell.channels)


def _start(
    cell: HORSTCell, state: LayerState | None, b: int, height: int, width: int, dtype: torch.dtype
) -> tuple[Tensor, KVCache]:
    """The frames that each sample has seen, and the entries before the clip: one without a state, otherwise S."""
    if state is None:
        zero = cell.zero_entry(height, width)
        count = torch.zeros(b, dtype=torch.int64, device=zero.key.device)
        keys, filters, values = (m.expand(b, *m.shape[1:]).unsqueeze(0) for m in zero)
    else:
        state = state.chronological()
        count = state.count
        keys, filters, values = (m.transpose(0, 1) for m in (state.keys, state.filters, state.values))
    key, value = (m.permute(0, 1, 3, 4, 2).flatten(2, 3).to(dtype).contiguous() for m in (keys, values))
    return count, KVCache(key, filters.flatten(2).float().contiguous(), value)


def step_layer(
    cell: HORSTCell, streams: int, height: int, width: int, dtype: torch.dtype
) -> tuple[StepLayer, tuple[Tensor, ...]]:
    """The layer for single frames of height x width (after pooling), and its all-zero state."""
    order = cell.config.order
    _, zero = _start(cell, None, 1, height, width, dtype)
    ring = KVCache(*(m.new_zeros(order, streams, *m.shape[2:]) for m in zero))
    return StepLayer(weights(cell), layer_form(cell, height, width), ring), tuple(m[0, 0] for m in zero)


def step(
    cell: HORSTCell, layer: StepLayer, x: Tensor, valid: Tensor, count: Tensor, active: Tensor, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """One frame x (B, C_in, H_in, W_in): y, e and STATT (B, C, H, W); see `StepLayer`."""
    x = x.to(dtype)
    x = max_pool(x, cell.stride) if cell.stride > 1 else x
    done = layer(pixels(x), valid, count, active, position(cell, count, 1))
    return tuple(picture(m, layer.form.size) for m in done)


def step_attention(layer: StepLayer, oldest_first: Tensor) -> tuple[Tensor, Tensor]:
    """S(Q, K) (B, S, H, W) and T(Q, K) (B, S) of the last step, from the slots in order of time (B, S)."""
    spatial, temporal = (in_order(over_heads(w, layer.form.how.heads)[0], oldest_first) for w in layer.attended[:2])
    return spatial.unflatten(-1, layer.form.size), temporal
