"""The costs of a model, layer by layer: parameters, operations per frame, bytes of state. Only shapes are computed.

A multiplication and an addition are one operation each (2 FLOP per multiply-add). STATT is counted as in the paper.
"""

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
class PartCosts:
    """One part of a model."""

    name: str
    output: tuple[int, ...]
    """(C, H, W), or the number of classes."""
    parameters: int
    flop: int
    """Per frame, when the state is full."""
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AttentionCosts:
    """Operations of one step of a layer's attention in each design, counted as in the paper."""

    name: str
    statt: int
    joint: int
    temporal: int


@dataclass(frozen=True, slots=True)
class Summary:
    rows: tuple[PartCosts, ...]
    attention: tuple[AttentionCosts, ...]

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
    """The costs of a model for one stream of frames of `size`; by default its own."""
    height, width = size or config.size
    with torch.device("meta"):  # only shapes
        model = Predictor.from_config(config).eval()
        frame = torch.zeros(1, model.backbone.input_channels, height, width)
        model.init_state(1, height, width)  # raises if the frames are too small
        flop, x = _flop(lambda: model.backbone(frame))
        rows = [PartCosts(config.backbone.name, tuple(x.shape[1:]), _parameters(model.backbone), flop)]
        attention: list[AttentionCosts] = []
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


def _core(name: str, core: Core, x: Tensor) -> tuple[PartCosts, CoreOutput]:
    """A core as one part. If it takes whole clips only, a clip of one frame is counted, the least that it can cost."""
    if not core.streaming:
        flop, (out, _) = _flop(lambda: core(x.unsqueeze(1)))
        out = replace(out, y=out.y[:, 0])
        return PartCosts(name, tuple(out.y.shape[1:]), _parameters(core), flop), out
    state = core.init_state(1, *x.shape[-2:])
    flop, (out, _) = _flop(lambda: core.step(x, state))
    return PartCosts(name, tuple(out.y.shape[1:]), _parameters(core), flop, state.nbytes), out


def _layer(name: str, cell: HORSTCell, x: Tensor) -> tuple[PartCosts, AttentionCosts, CellOutput]:
    state = cell.init_state(1, *x.shape[-2:])
    shape = (cell.config.order, *state.keys.shape[2:])
    flop, (out, _) = _flop(lambda: cell.step(x, state, False), convolutions=True)
    flop += 2 * weighing_ops(cell.config.attention, *shape)
    row = PartCosts(name, tuple(out.y.shape[1:]), _parameters(cell), flop, state.nbytes)
    return row, AttentionCosts(name, statt_ops(*shape), joint_ops(*shape), temporal_ops(*shape)), out


def _head(config: PredictorConfig, head: Head, out: CoreOutput) -> PartCosts:
    maps = {name: out.named(name) for name in head.reads}
    name = config.head.name
    if head.unrolls:
        steps = round(config.fps)
        name += f" ({steps} steps, 1 s ahead)"
        flop, _ = _flop(lambda: head(**maps, unroll=steps))
    else:
        flop, _ = _flop(lambda: head(**maps))
    return PartCosts(name, tuple(head.classes.values()), _parameters(head), flop)


def _flop(call: Callable[[], Result], *, convolutions: bool = False) -> tuple[int, Result]:
    """The FLOP of the matrix products and convolutions of a call, or of its convolutions only, and its result."""
    with FlopCounterMode(display=False) as counter:
        result = call()
    counts = counter.get_flop_counts().get("Global", {})
    return sum(n for op, n in counts.items() if not convolutions or "convolution" in str(op)), result


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
