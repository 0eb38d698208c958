"""The algorithm of the official release, written plainly: what our layers are compared with, in parity and in speed.

The release keeps (e, h) of the last S frames and makes keys and values of all of them anew at every step. Here the same
weights as in one of our cores do that; everything else (attention, norms, output) is the code that the core runs.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from horst.layers import HORST, HORSTCell
from horst.layers.blocks import FF
from horst.layers.state import Entry

Queue = list[tuple[Tensor, Tensor]]
"""(e, h) of the last S frames, oldest first."""


class RecomputingCell(nn.Module):
    """A HORST layer without a cache of keys and values."""

    def __init__(self, cell: HORSTCell) -> None:
        super().__init__()
        if cell.config.key_value != "encoding+h" or cell.config.position != "none" or cell.filter_k is None:
            raise ValueError(
                "the release makes keys and values from [e; h] and filters them, without position encoding"
            )
        self.cell = cell
        c = cell.channels
        convolutions = torch.cat([cell.key_value.observed.weight, cell.key_value.recurrent.weight], 1)
        self.ff_k, self.ff_v = (FF(2 * c, c).to(convolutions) for _ in "kv")
        norm = cell.key_value.norm
        for ff, own in ((self.ff_k, slice(None, c)), (self.ff_v, slice(c, None))):
            ours = {"0.weight": convolutions[own], "1.weight": norm.weight[own], "1.bias": norm.bias[own]}
            ff.load_state_dict(ours)
        self.cell.key_value.requires_grad_(False)  # replaced by the two above

    def start(self, x: Tensor) -> Queue:
        size = self.cell.output_size(x.shape[-2], x.shape[-1])
        zero = x.new_zeros(x.shape[0], self.cell.channels, *size)
        return [(zero, zero)]

    def step(self, x: Tensor, queue: Queue, *, first: bool) -> tuple[Tensor, Queue]:
        cell = self.cell
        assert cell.filter_k is not None
        if cell.stride > 1:
            x = torch.max_pool2d(x, cell.stride)
        e = cell.act(cell.ff_x(x))
        q = cell.ff_q(e)
        pairs = torch.stack([torch.cat(pair, 1) for pair in queue])  # (S, B, 2C, H, W)
        s, b = pairs.shape[:2]
        k, v = self.ff_k(pairs.flatten(0, 1)), self.ff_v(pairs.flatten(0, 1))
        f_k = cell.filter_k(k)
        window = [Entry(k[i : i + b], f_k[i : i + b], v[i : i + b]) for i in range(0, s * b, b)]
        f_q = None if cell.filter_q is None else cell.filter_q(q)
        statt = cell.attend(q, f_q, window, None, need_weights=False).out
        h = statt if cell.ff_h is None else cell.act(cell.ff_h(e + statt))
        y = cell.emit(x, e, statt, h)
        kept = [] if first else queue
        return y, [*kept, (e, h)][-cell.config.order :]


class RecomputingCore(nn.Module):
    """The layers of a core, each recomputing. Frames go through all layers one by one, as in the release."""

    def __init__(self, core: HORST) -> None:
        super().__init__()
        self.layers = nn.ModuleList(RecomputingCell(cell) for cell in copy.deepcopy(core).cells)

    def forward(self, x: Tensor) -> Tensor:
        """y of the last layer, (B, T, C, H, W)."""
        queues: list[Queue] | None = None
        outputs = []
        for frame in x.unbind(1):
            y, queues = self.step(frame, queues)
            outputs.append(y)
        return torch.stack(outputs, 1)

    def step(self, x: Tensor, queues: list[Queue] | None) -> tuple[Tensor, list[Queue]]:
        """One frame; None for the queues before the first one."""
        after = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, RecomputingCell)
            queue = layer.start(x) if queues is None else queues[i]
            x, queue = layer.step(x, queue, first=queues is None)
            after.append(queue)
        return x, after
