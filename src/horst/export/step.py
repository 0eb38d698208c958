"""A step of tensors alone: what torch.export can trace, with a state of zeros as the start of a stream."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from horst.export.contract import Contract
from horst.layers import HORST, HORSTState, LayerState, RecurrentState
from horst.layers.state import Entry
from horst.models import Predictor

KEPT = ("keys", "filters", "values")
"""What a layer's ring holds."""


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


class StepModule(nn.Module):
    """(frame, the tensors of the state) -> (logits of each task, the state's tensors after it)."""

    def __init__(self, model: Predictor, unroll: int | None = None) -> None:
        super().__init__()
        self.model, self.unroll = model, unroll
        height, width = model.backbone.output_size(*model.size)
        for i, cell in enumerate(model.core.cells if isinstance(model.core, HORST) else ()):
            height, width = cell.output_size(height, width)
            zero = cell.zero_entry(height, width)
            for name, value in zip(KEPT, (zero.key[..., :1, :1], zero.filter, zero.value[..., :1, :1]), strict=True):
                self.register_buffer(f"zero_{name}_{i}", value.detach().clone(), persistent=False)

    def forward(self, frame: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        out, after = self.model.step(frame, self._state(state), unroll=self.unroll)
        return (*(out.logits[task] for task in out.logits), *(tensor for _, tensor in after.tensors()))

    def _state(self, tensors: tuple[Tensor, ...]) -> HORSTState | RecurrentState:
        core = self.model.core
        if not isinstance(core, HORST):
            height, width = self.model.backbone.output_size(*self.model.size)
            names = [name for name, _ in core.init_state(1, height, width, device="meta").tensors()]
            memory = dict(zip(names, tensors, strict=True))
            return RecurrentState({name: memory[name] for name in names[:-1]}, memory["count"], core.config)
        layers = []
        for i in range(len(core.cells)):
            keys, filters, values, count = tensors[4 * i : 4 * i + 4]
            layers.append(FromZeros(keys, filters, values, count, self._zero(i)))
        return HORSTState(tuple(layers), core.config)

    def _zero(self, i: int) -> Entry:
        return Entry(*(self.get_buffer(f"zero_{name}_{i}") for name in KEPT))


def example(contract: Contract, batch: int) -> tuple[Tensor, ...]:
    """A first step's inputs: zeros of the right shapes."""
    return tuple(
        torch.zeros([batch, *(n for n in port.shape if isinstance(n, int))], dtype=getattr(torch, port.dtype))
        for port in contract.inputs
    )
