"""A step of tensors alone: what torch.export can trace, with a state of zeros as the start of a stream."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from horst.export.contract import RING, Contract, rings
from horst.layers import HORSTState, LayerState
from horst.layers.state import Entry
from horst.models import Predictor


@dataclass(frozen=True, slots=True)
class FromZeros(LayerState):
    """A ring that may hold nothing at all. Before a stream's first frame, the last slot is read as the zero state.

    It is not written back: from the first frame on that slot is not valid until it is filled.
    """

    zero: Entry
    """Of the all-zero state, of batch 1; key and value are the same at every pixel and have one."""

    def entries(self) -> list[Entry]:
        kept = LayerState.entries(self)
        fresh = self.count == 0
        first = (
            torch.where(fresh.view(-1, *(1,) * (there.ndim - 1)), zero, there)
            for zero, there in zip(self.zero, kept[-1], strict=True)
        )
        return [*kept[:-1], Entry(*first)]


class Step(nn.Module):
    """(frame, keys_0, filters_0, values_0, count_0, keys_1, ...) -> (logits of each task, the new keys_0, ...)."""

    def __init__(self, model: Predictor, unroll: int | None = None) -> None:
        super().__init__()
        self.model, self.unroll = model, unroll
        height, width = model.backbone.output_size(*model.size)
        for i, cell in enumerate(model.core.cells):
            height, width = cell.output_size(height, width)
            zero = cell.zero_entry(height, width)
            for name, value in zip(RING, (zero.key[..., :1, :1], zero.filter, zero.value[..., :1, :1]), strict=False):
                self.register_buffer(f"zero_{name}_{i}", value.detach().clone(), persistent=False)

    def forward(self, frame: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        layers = []
        for i in range(len(self.model.core.cells)):
            keys, filters, values, count = state[i * len(RING) : (i + 1) * len(RING)]
            layers.append(FromZeros(keys, filters, values, count, self._zero(i)))
        out, after = self.model.step(frame, HORSTState(tuple(layers), self.model.core.config), unroll=self.unroll)
        return (*(out.logits[task] for task in out.logits), *(ring for layer in after.layers for ring in rings(layer)))

    def _zero(self, i: int) -> Entry:
        return Entry(*(self.get_buffer(f"zero_{name}_{i}") for name in ("keys", "filters", "values")))


def example(contract: Contract, batch: int) -> tuple[Tensor, ...]:
    """A first step's inputs: zeros of the right shapes."""
    return tuple(
        torch.zeros([batch, *(n for n in port.shape if isinstance(n, int))], dtype=getattr(torch, port.dtype))
        for port in contract.inputs
    )
