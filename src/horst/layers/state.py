"""The memory of a HORST layer: a ring of S past states, passed in and returned, never kept on a module.

A state in the queue never changes, so its key, key filter and value are computed once and kept. The ring has a fixed
size and counts what was pushed: shapes are the same at every step, and streams of different age share a batch.

Shapes: B batch, S order of the layer, C channels, H x W map.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from horst.layers.config import HORSTConfig
from horst.layers.core import State


class Entry(NamedTuple):
    """What is kept of a past frame."""

    key: Tensor  # (B, C, H, W)
    filter: Tensor  # (B, H, W), f_K(K) of Eq. (4)
    value: Tensor  # (B, C, H, W)


@dataclass(frozen=True, slots=True)
class LayerState:
    """The ring of one layer. The entry of frame n is in slot n % S.

    Before the first frame, slot S - 1 holds the all-zero initial state of the release; the first push drops it.
    """

    keys: Tensor  # (B, S, C, H, W)
    filters: Tensor  # (B, S, H, W)
    values: Tensor  # (B, S, C, H, W)
    count: Tensor  # (B,) int64: the number of frames that each stream has pushed

    @classmethod
    def start(cls, zero: Entry, batch_size: int, order: int) -> Self:
        """A ring with only the all-zero state `zero` (of batch 1)."""

        def ring(x: Tensor) -> Tensor:
            x = x.expand(batch_size, *x.shape[1:]).unsqueeze(1)
            return torch.cat([torch.zeros_like(x).expand(-1, order - 1, *x.shape[2:]), x], 1)

        count = torch.zeros(batch_size, dtype=torch.int64, device=zero.key.device)
        return cls(ring(zero.key), ring(zero.filter), ring(zero.value), count)

    @property
    def order(self) -> int:
        return self.keys.shape[1]

    @property
    def valid(self) -> Tensor:
        """(B, S): which slots have a state."""
        slot = torch.arange(self.order, device=self.count.device)
        count = self.count.unsqueeze(1)
        return (slot < count) | ((count == 0) & (slot == self.order - 1))

    @property
    def oldest_first(self) -> Tensor:
        """(B, S): the slots in order of time; the last is the newest."""
        slot = torch.arange(self.order, device=self.count.device)
        return (self.count.unsqueeze(1) + slot) % self.order

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, f.name).nbytes for f in fields(self))

    def entries(self) -> list[Entry]:
        """The S slots in memory order, without a copy."""
        return [Entry(*e) for e in zip(self.keys.unbind(1), self.filters.unbind(1), self.values.unbind(1), strict=True)]

    def chronological(self) -> Self:
        """A copy with the oldest state in slot 0, only for reading: `count` is unchanged."""
        order = self.oldest_first
        return replace(self, **{name: in_order(getattr(self, name), order) for name in ("keys", "filters", "values")})

    def push(self, entry: Entry) -> "LayerState":
        """The ring after one more frame; this one is not changed."""
        here = torch.arange(self.order, device=self.count.device) == (self.count % self.order).unsqueeze(1)  # (B, S)

        def write(ring: Tensor, x: Tensor) -> Tensor:
            return torch.where(here.view(*here.shape, *(1,) * (ring.ndim - 2)), x.unsqueeze(1), ring)

        rings = zip((self.keys, self.filters, self.values), entry, strict=True)
        keys, filters, values = (write(ring, x) for ring, x in rings)
        return LayerState(keys, filters, values, self.count + 1)


@dataclass(frozen=True, slots=True)
class HORSTState(State):
    """The memory of a stack of layers."""

    layers: tuple[LayerState, ...]
    config: HORSTConfig  # the config of its core; other cores reject it

    @property
    def count(self) -> Tensor:  # type: ignore[override]
        return self.layers[0].count

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """keys_0, filters_0, values_0, count_0, keys_1, ..."""
        for i, layer in enumerate(self.layers):
            yield from ((f"{f.name}_{i}", getattr(layer, f.name)) for f in fields(LayerState))

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        mapped = (LayerState(*(function(getattr(s, f.name)) for f in fields(LayerState))) for s in self.layers)
        return replace(self, layers=tuple(mapped))


def in_order(x: Tensor, order: Tensor) -> Tensor:
    """x (B, S, ...) with its second axis rearranged by `order` (B, S)."""
    return x.gather(1, order.view(*order.shape, *(1,) * (x.ndim - 2)).expand_as(x))


def valid_windows(before: Tensor, frames: int, order: int) -> Tensor:
    """(T, B, S) bool: which of the S entries before each frame exist, for samples that had seen `before` (B,) frames.

    The all-zero state exists only for the first frame of a new sample.
    """
    frame, place = (torch.arange(n, device=before.device) for n in (frames, order))
    entry = frame[:, None, None] + place  # the first S are those of the state before the clip
    count = before[:, None]
    zero = (count == 0) & (entry == order - 1) & (frame[:, None, None] == 0)
    return (entry >= order - count) | zero


def ring_of(
    entries: Sequence[Entry], lengths: Sequence[int], before: Tensor, order: int, *, fresh: bool = False
) -> LayerState:
    """The ring after a clip, from the S entries before it and all its own in order of time.

    `lengths` are the frames of each sample, `before` (B,) the frames that each had seen before the clip: 0 if `fresh`.
    """
    if fresh and len(set(lengths)) == 1:  # the slots are known: one copy
        n = lengths[0]
        keys, filters, values = _stacked([entries[n + (slot - n) % order] for slot in range(order)])
        return LayerState(keys, filters, values, before + n)
    if len(set(lengths)) == 1:  # no data is copied to the device, as CUDA graphs require
        count = before + lengths[0]
        keys, filters, values = _stacked(entries[lengths[0] : lengths[0] + order])
    else:
        count = before + torch.tensor(lengths, device=before.device)
        # By length, not by sample: batches have similar lengths, and a GPU would wait for each sample.
        by_length = {n: [b for b, length in enumerate(lengths) if length == n] for n in sorted(set(lengths))}
        parts = [_stacked(entries[n : n + order], rows) for n, rows in by_length.items()]
        rows = torch.tensor([b for rows in by_length.values() for b in rows], device=before.device).argsort()
        keys, filters, values = (torch.cat(column)[rows] for column in zip(*parts, strict=True))
    # The entry of frame n belongs to slot n % S; the oldest one here is of frame count - S.
    place = (torch.arange(order, device=before.device) - count.unsqueeze(1)) % order
    return LayerState(in_order(keys, place), in_order(filters, place), in_order(values, place), count)


def _stacked(entries: Sequence[Entry], rows: list[int] | None = None) -> Entry:
    """S entries as one, each (B, S, ...), of all samples or of some."""
    if rows is None:
        return Entry(*(torch.stack(column, 1) for column in zip(*entries, strict=True)))
    chosen = torch.tensor(rows, device=entries[0].key.device)
    return Entry(*(torch.stack([x[chosen] for x in column], 1) for column in zip(*entries, strict=True)))
