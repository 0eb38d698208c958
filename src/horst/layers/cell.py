"""One HORST layer, Eq. (8)-(11): three stages, only the middle one is recurrent.

    observe   e, Q, and the part of K and V that reads the observation      over a whole clip at once
    recur     STATT over the queue, h, and the key and value of the frame   frame by frame
    emit      y                                                             over a whole clip at once

A clip and a single step run the same three stages and give equal results.

Shapes: B batch, T frames, S past states, C channels, H x W map after the layer's pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.layers.blocks import FF, KeyValue, SpatialFilter, activation, output_block, sinusoidal
from horst.layers.config import HORSTConfig
from horst.layers.state import Entry, LayerState, in_order, ring_of, valid_windows
from horst.ops import Attended, eager, stacked
from horst.ops.backend import BackendChoice, Wanted, choose

WITH_KERNELS = {
    "attention": ("spatial-temporal", "temporal", "spatial"),
    "key_value": ("encoding+h", "split"),
    "output": ("residual", "concat+se"),
}  # options with kernels; all others are unrestricted


class Observed(NamedTuple):
    """What a layer computes from its input only. Leading axis: B * T, or B for one frame."""

    x: Tensor
    e: Tensor
    q: Tensor
    f_q: Tensor | None
    key_value: Tensor

    def by_frame(self, b: int, t: int, *, contiguous: bool) -> list[Observed]:
        """(B * T, ...) by frame. Unbinding is much cheaper to differentiate than T slices."""

        def frames(a: Tensor) -> tuple[Tensor, ...]:
            a = a.unflatten(0, (b, t)).transpose(0, 1)
            return (a.contiguous() if contiguous else a).unbind()

        columns = ([None] * t if a is None else frames(a) for a in self)
        return [Observed(*now) for now in zip(*columns, strict=True)]


class CellOutput(NamedTuple):
    """Leading axes: (B, T), or (B,) for one frame."""

    y: Tensor
    e: Tensor
    statt: Tensor
    spatial: Tensor | None  # (..., S, H, W), the last of the S is the previous frame; zero for frames before the first
    temporal: Tensor | None  # (..., S)

    def map(self, function: Callable[[Tensor], Tensor]) -> CellOutput:
        """Apply `function` to every tensor."""
        return CellOutput._make(None if a is None else function(a) for a in self)


class HORSTCell(nn.Module):
    """A recurrent layer over maps that attends to its last S states."""

    def __init__(self, config: HORSTConfig, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        assert config.activation is not None
        assert config.pooled_pair is not None
        self.config = config
        self.in_channels, self.channels, self.stride = in_channels, channels, stride
        self.wanted_backend: Wanted = "auto"  # the implementation for clips; see `horst.ops.backend`
        mode = config.attention
        self.act = activation(config.activation)
        self.ff_x = FF(in_channels, channels)
        self.ff_q = FF(channels, channels)
        self.key_value = KeyValue(channels, split=config.key_value == "split")
        self.filter_q = SpatialFilter(config.pooled_pair) if mode in ("spatial-temporal", "temporal") else None
        self.filter_k = SpatialFilter(config.pooled_pair) if mode != "joint" else None
        self.ff_h = FF(channels, channels) if config.queue == "h" else None
        self.output = output_block(config, in_channels, channels)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height // self.stride, width // self.stride

    def init_state(self, batch_size: int, height: int, width: int) -> LayerState:
        """The state before the first frame, for maps of height x width before the layer's pooling.

        It has the key and value of an all-zero state, which depend on the weights: gradients reach the weights
        through it.
        """
        return LayerState.start(self.zero_entry(*self.output_size(height, width)), batch_size, self.config.order)

    def forward(
        self, x: Tensor, state: LayerState | None, lengths: Sequence[int], attention: bool, *, need_state: bool = True
    ) -> tuple[CellOutput, LayerState | None]:
        """A clip x (B, T, C_in, H_in, W_in), from a state or from the initial one."""
        # The kernels give attention weights without a gradient: PyTorch runs if one may be needed.
        chosen = self.backend(x.device).name
        if chosen == "triton" and not (attention and torch.is_grad_enabled()):
            from horst.layers import fused  # needs Triton

            out, after = fused.clip(self, x, state, lengths, need_state=need_state)
            return CellOutput._make(out if attention else (*out[:3], None, None)), after
        b, t = x.shape[:2]
        order = self.config.order
        compiled = chosen == "compiled" and torch.is_grad_enabled()
        recur = self._compiled_recurrence if compiled else self.recur
        # A compiled recurrence has one shape: windows of all S states, masked before they exist.
        fresh = state is None and not compiled
        before, entries = self._past(x, state, contiguous=compiled)
        number = before.unsqueeze(1) + torch.arange(t, device=before.device)  # (B, T)
        seen = self.observe(x.flatten(0, 1), number.flatten())
        valid = [None] * t if fresh else valid_windows(before, t, order).unbind()
        attended, memory = [], []
        for i, now in enumerate(seen.by_frame(b, t, contiguous=compiled)):
            window = entries[i : i + order]
            if fresh and i < order:  # the zero state at first, then the states of the clip
                window = window[order - max(i, 1) :]
            result, h, entry = recur(now, window, valid[i], need_weights=attention)
            attended.append(result)
            memory.append(h)
            entries.append(entry)
        statt = torch.stack([a.out for a in attended], 1)
        held = None if self.ff_h is None else torch.stack(memory, 1).flatten(0, 1)
        y = self.emit(seen.x, seen.e, statt.flatten(0, 1), held)
        spatial = temporal = None
        if attention:
            spatial = torch.stack([_aligned(a.spatial, order) for a in attended], 1)
            temporal = torch.stack([_aligned(a.temporal, order) for a in attended], 1)
        y, e = (m.unflatten(0, (b, t)) for m in (y, seen.e))
        after = ring_of(entries, lengths, before, order, fresh=state is None) if need_state else None
        return CellOutput(y, e, statt, spatial, temporal), after

    def backend(self, device: torch.device) -> BackendChoice:
        """The implementation for clips on a device."""
        chosen = {name: getattr(self.config, name) for name in WITH_KERNELS}
        unknown = ", ".join(f"{name}={value}" for name, value in chosen.items() if value not in WITH_KERNELS[name])
        return choose(device, unknown, self.wanted_backend)

    @cached_property
    def _compiled_recurrence(self) -> Callable[..., tuple[Attended, Tensor, Entry]]:
        """`recur` compiled, for training: its many small operations become a few large ones.

        It is compiled once per batch and map size. All its inputs are contiguous, so that no stride depends on T.
        """

        def recur(*args: Any, **kwargs: Any) -> tuple[Attended, Tensor, Entry]:
            result, h, entry = self.recur(*args, **kwargs)
            return result, h, _contiguous(entry)

        return torch.compile(recur, dynamic=False)

    def _past(self, x: Tensor, state: LayerState | None, *, contiguous: bool) -> tuple[Tensor, list[Entry]]:
        """The number of frames that each sample has seen, and the S entries before the clip in order of time."""
        if state is None:
            state = self.init_state(x.shape[0], *x.shape[-2:])
        else:
            state = state.chronological()
        entries = state.entries()
        return state.count, [_contiguous(entry) for entry in entries] if contiguous else entries

    def step(self, x: Tensor, state: LayerState, attention: bool) -> tuple[CellOutput, LayerState]:
        """One frame x (B, C_in, H_in, W_in)."""
        seen = self.observe(x, state.count)
        result, h, entry = self.recur(seen, state.entries(), state.valid, need_weights=attention)
        y = self.emit(seen.x, seen.e, result.out, h)
        spatial = temporal = None
        if attention:
            spatial, temporal = (
                None if w is None else in_order(w, state.oldest_first) for w in (result.spatial, result.temporal)
            )
        return CellOutput(y, seen.e, result.out, spatial, temporal), state.push(entry)

    def observe(self, x: Tensor, frame: Tensor) -> Observed:
        """Everything that does not depend on the past: x (N, C_in, H_in, W_in), frame numbers (N,)."""
        if self.stride > 1:
            x = F.max_pool2d(x, self.stride)
        e = self.act(self.ff_x(x))
        located = e
        if self.config.position == "sinusoidal":
            located = e + sinusoidal(frame, self.channels).to(e.dtype)[:, :, None, None]
        q = self.ff_q(located)
        f_q = None if self.filter_q is None else self.filter_q(q)
        return Observed(x, e, q, f_q, self.key_value.observed(q if self.config.key_value == "query+h" else located))

    def recur(
        self, now: Observed, window: Sequence[Entry], valid: Tensor | None, *, need_weights: bool
    ) -> tuple[Attended, Tensor, Entry]:
        """One frame of the recurrence: the attention's result, h, and the entry for the queue."""
        result = self.attend(now.q, now.f_q, window, valid, need_weights=need_weights)
        return result, *self.remember(now, result.out)

    def remember(self, now: Observed, statt: Tensor) -> tuple[Tensor, Entry]:
        """h, and the entry for the queue."""
        h = statt if self.ff_h is None else self.act(self.ff_h(now.e + statt))
        return h, self._entry(*self.key_value(now.key_value, h))

    def emit(self, x: Tensor, e: Tensor, statt: Tensor, h: Tensor | None) -> Tensor:
        """y from the layer's input and its memory: h of Eq. (8), or STATT + e if the queue keeps STATT itself."""
        return self.output(x, e, statt + e if self.ff_h is None else h)

    def attend(
        self, q: Tensor, f_q: Tensor | None, window: Sequence[Entry], valid: Tensor | None, *, need_weights: bool
    ) -> Attended:
        """STATT of Eq. (7), or the ablation in the config."""
        b, c, height, width = q.shape
        heads = self.config.heads
        keys, filters, values = (list(column) for column in zip(*window, strict=True))
        if heads > 1:  # a head is a separate sample: channels are split, filters and mask are repeated
            q = _split(q, heads)
            keys, values = ([_split(m, heads) for m in maps] for maps in (keys, values))
            filters = [f.repeat_interleave(heads, 0) for f in filters]
            f_q = None if f_q is None else f_q.repeat_interleave(heads, 0)
            valid = None if valid is None else valid.repeat_interleave(heads, 0)
        result = eager.statt(
            q,
            f_q,
            keys,
            filters,
            values,
            valid,
            **self._attention_options(height, width),
            need_weights=need_weights,
        )
        if heads == 1:
            return result
        weights = (None if w is None else w.unflatten(0, (b, heads)).mean(1) for w in (result.spatial, result.temporal))
        return Attended(result.out.reshape(b, c, height, width), *weights)

    def attend_ring(self, q: Tensor, f_q: Tensor | None, ring: LayerState) -> Tensor:
        """STATT over a whole ring in a few large operations, for exported graphs."""
        b, c, height, width = q.shape
        heads = self.config.heads
        keys, filters, values, valid = ring.keys, ring.filters, ring.values, ring.valid
        if heads > 1:
            q = _split(q, heads)
            keys, values = (m.unflatten(2, (heads, -1)).movedim(2, 1).flatten(0, 1) for m in (keys, values))
            filters, valid = (m.repeat_interleave(heads, 0) for m in (filters, valid))
            f_q = None if f_q is None else f_q.repeat_interleave(heads, 0)
        options = self._attention_options(height, width)
        return stacked.statt(q, f_q, keys, filters, values, valid, **options).reshape(b, c, height, width)

    def _attention_options(self, height: int, width: int) -> dict[str, Any]:
        config = self.config
        size = self.channels // config.heads * (height * width if config.temporal_scale == "chw" else 1)
        options = {"mode": config.attention, "order": config.order, "spatial_weight": config.spatial_weight}
        return {"scale": size**-0.5, **options}

    def _entry(self, key: Tensor, value: Tensor) -> Entry:
        f_k = key.new_ones(key.shape[0], *key.shape[-2:]) if self.filter_k is None else self.filter_k(key)
        dtype = self.key_value.norm.weight.dtype  # autocast may change it; a state has one dtype
        return Entry(key.to(dtype), f_k.to(dtype), value.to(dtype))

    def zero_entry(self, height: int, width: int) -> Entry:
        return self._entry(*self.key_value.of_zero(height, width))


def _contiguous(entry: Entry) -> Entry:
    return Entry(*(x.contiguous() for x in entry))


def _split(x: Tensor, heads: int) -> Tensor:
    """(B, C, H, W) -> (B * heads, C / heads, H, W)"""
    return x.reshape(x.shape[0] * heads, x.shape[1] // heads, *x.shape[2:])


def _aligned(weights: Tensor | None, order: int) -> Tensor:
    """(B, n, ...) weights of the n newest states -> (B, S, ...), zero for states that do not exist."""
    assert weights is not None
    missing = order - weights.shape[1]
    return torch.cat([weights.new_zeros(weights.shape[0], missing, *weights.shape[2:]), weights], 1)
