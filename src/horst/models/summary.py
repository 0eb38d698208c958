"""What a model costs: parameters, operations a frame, bytes of state, layer by layer. Nothing is computed for it.

A multiplication and an addition are one operation each (2 FLOP a multiply-add); STATT's count is the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from horst.heads import Head
from horst.layers import HORST, Core, CoreOutput, HORSTCell
from horst.layers.cell import CellOutput
from horst.models.predictor import Predictor, PredictorConfig
from horst.ops import joint_ops, statt_ops, temporal_ops, weighing_ops

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Row:
    """One part of a model."""

    name: str
    output: tuple[int, ...]
    """(C, H, W), or the number of classes."""
    parameters: int
    flop: int
    """A frame, at steady state."""
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """Operations of one step of a layer's attention in each design, as the paper counts them."""

    name: str
    statt: int
    joint: int
    temporal: int


@dataclass(frozen=True, slots=True)
class Summary:
    rows: tuple[Row, ...]
    attention: tuple[Attention, ...]

    @property
    def parameters(self) -> int:
        return sum(row.parameters for row in self.rows)

    @property
    def flop(self) -> int:
        return sum(row.flop for row in self.rows)

    @property
    def state_bytes(self) -> int:
        return sum(row.state_bytes for row in self.rows)


@torch.no_grad()
def summarize(config: PredictorConfig, size: tuple[int, int] | None = None) -> Summary:
    """The costs of the model of `config` for one stream of frames of `size` (its own by default)."""
    height, width = size or config.size
    with torch.device("meta"):  # shapes alone
        model = Predictor.from_config(config).eval()
        frame = torch.zeros(1, model.backbone.input_channels, height, width)
        model.init_state(1, height, width)  # refuses frames that are too small
        flop, x = _flop(lambda: model.backbone(frame))
        rows = [Row(config.backbone.name, tuple(x.shape[1:]), _parameters(model.backbone), flop)]
        attention: list[Attention] = []
        if isinstance(model.core, HORST):
            for i, cell in enumerate(model.core.cells):
                row, costs, cell_out = _layer(f"layer {i}", cell, x)
                rows.append(row)
                attention.append(costs)
                x = cell_out.y
            out = CoreOutput(cell_out.y, (cell_out.e,), (cell_out.statt,))
        else:
            row, out = _core(config.core.name, model.core, x)
            rows.append(row)
        rows.append(_head(config, model.head, out))
    return Summary(tuple(rows), tuple(attention))


def _core(name: str, core: Core, x: Tensor) -> tuple[Row, CoreOutput]:
    """A core as one part. Where it takes no single frames, a clip of one stands for it: the least that it can cost."""
    if not core.streaming:
        flop, (out, _) = _flop(lambda: core(x.unsqueeze(1)))
        out = replace(out, y=out.y[:, 0])
        return Row(name, tuple(out.y.shape[1:]), _parameters(core), flop), out
    state = core.init_state(1, *x.shape[-2:])
    flop, (out, _) = _flop(lambda: core.step(x, state))
    return Row(name, tuple(out.y.shape[1:]), _parameters(core), flop, state.nbytes), out


def _layer(name: str, cell: HORSTCell, x: Tensor) -> tuple[Row, Attention, CellOutput]:
    state = cell.init_state(1, *x.shape[-2:])
    shape = (cell.config.order, *state.keys.shape[2:])
    flop, (out, _) = _flop(lambda: cell.step(x, state, False), convolutions=True)
    flop += 2 * weighing_ops(cell.config.attention, *shape)
    row = Row(name, tuple(out.y.shape[1:]), _parameters(cell), flop, state.nbytes)
    return row, Attention(name, statt_ops(*shape), joint_ops(*shape), temporal_ops(*shape)), out


def _head(config: PredictorConfig, head: Head, out: CoreOutput) -> Row:
    maps = {name: out.named(name) for name in head.reads}
    name = config.head.name
    if head.unrolls:
        steps = round(config.fps)
        name += f" ({steps} steps: 1 s ahead)"
        flop, _ = _flop(lambda: head(**maps, unroll=steps))
    else:
        flop, _ = _flop(lambda: head(**maps))
    return Row(name, tuple(head.classes.values()), _parameters(head), flop)


def _flop(call: Callable[[], Result], *, convolutions: bool = False) -> tuple[int, Result]:
    """What a call returns, and the FLOP of its matrix products and convolutions (or of the latter alone)."""
    with FlopCounterMode(display=False) as counter:
        result = call()
    counts = counter.get_flop_counts().get("Global", {})
    return sum(n for op, n in counts.items() if not convolutions or "convolution" in str(op)), result


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
