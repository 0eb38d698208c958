"""The costs of a model, layer by layer: parameters, operations per frame, bytes of state. Only shapes are computed.

A multiplication and an addition are one operation each (2 FLOP per multiply-add). STATT is counted as in the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from horst.backbones import Backbone, WindowBackbone
from horst.layers import HORST, CoreOutput
from horst.models.predictor import Predictor, PredictorConfig
from horst.ops import joint_ops, statt_ops, temporal_ops, weighing_ops


@dataclass(frozen=True, slots=True)
class PartCosts:
    """One part of a model."""

    name: str
    output: tuple[int, ...]  # (C, H, W), or the number of classes
    parameters: int
    flop: int  # per frame, when the state is full
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
    """The sums over all parts, and the parts."""

    parameters: int
    flop: int
    state_bytes: int
    rows: tuple[PartCosts, ...]
    attention: tuple[AttentionCosts, ...]


@torch.no_grad()
def summarize(config: PredictorConfig, size: tuple[int, int] | None = None) -> Summary:
    """The costs of a model for one stream of frames of `size`; by default its own."""
    height, width = size or config.size
    with torch.device("meta"):  # only shapes
        model = Predictor.from_config(config).eval()
        frame = torch.zeros(1, model.backbone.input_channels, height, width)
        model.init_state(1, height, width)  # raises if the frames are too small
        flop, x = _flop(model.backbone, frame)
        rows, attention = [_backbone(config.backbone.name, x, model.backbone, flop, (height, width))], []
        if isinstance(model.core, HORST):
            for i, cell in enumerate(model.core.cells):
                state = cell.init_state(1, *x.shape[-2:])
                shape = (cell.config.order, *state.keys.shape[2:])
                flop, (seen, _) = _flop(cell.step, x, state, attention=False, kind="convolution")
                flop += 2 * weighing_ops(cell.config.attention, *shape)
                rows.append(_part(f"layer {i}", seen.y, cell, flop, state))
                operations = (count(*shape) for count in (statt_ops, joint_ops, temporal_ops))
                attention.append(AttentionCosts(f"layer {i}", *operations))
                x = seen.y
            out = CoreOutput(seen.y, (seen.e,), (seen.statt,))
        elif model.core.streaming:
            state = model.core.init_state(1, *x.shape[-2:])
            flop, (out, _) = _flop(model.core.step, x, state)
            rows.append(_part(config.core.name, out.y, model.core, flop, state))
        else:  # it takes whole clips only: a clip of one frame is the least that it can cost
            flop, (out, _) = _flop(model.core, x.unsqueeze(1))
            out = replace(out, y=out.y[:, 0])
            rows.append(_part(config.core.name, out.y, model.core, flop))
        head, steps = model.head, round(config.fps)
        options: dict[str, Any] = {name: out.named(name) for name in head.reads}
        options |= {"unroll": steps} if head.unrolls else {}
        name = config.head.name + (f" ({steps} steps, 1 s ahead)" if head.unrolls else "")
        row = _part(name, x, head, _flop(head, **options)[0])
        rows.append(replace(row, output=tuple(head.classes.values())))
    totals = {name: sum(getattr(row, name) for row in rows) for name in ("parameters", "flop", "state_bytes")}
    return Summary(**totals, rows=tuple(rows), attention=tuple(attention))


def _backbone(name: str, output: Tensor, backbone: Backbone, flop: int, size: tuple[int, int]) -> PartCosts:
    """`flop`: of one call, which for a `WindowBackbone` is a window; its cost is spread over the frames of a stride."""
    if not isinstance(backbone, WindowBackbone):
        return _part(name, output, backbone, flop, backbone.init_memory(1, *size))
    every = "frame" if backbone.stride == 1 else f"{backbone.stride} frames"
    name += f" (a window of {backbone.window} frames, {flop / 1e9:.3f} GFLOP, every {every})"
    return _part(name, output, backbone, flop // backbone.stride, backbone.init_memory(1, *size))


def _part(name: str, output: Tensor, module: nn.Module, flop: int, state: Any = None) -> PartCosts:
    parameters = sum(p.numel() for p in module.parameters())
    return PartCosts(name, tuple(output.shape[1:]), parameters, flop, state.nbytes if state is not None else 0)


def _flop(call: Callable[..., Any], *args: Any, kind: str = "", **options: Any) -> tuple[int, Any]:
    """The FLOP of the matrix products and convolutions of a call, or of one kind of them only, and its result."""
    with FlopCounterMode(display=False) as counter:
        result = call(*args, **options)
    counts = counter.get_flop_counts().get("Global", {})
    return sum(n for op, n in counts.items() if kind in str(op)), result
