"""A step in two stages, as ONNX graphs without weights, for the engine that runs streams on a CPU.

    observe   frames                         ->  what does not depend on the past: all states of a stream share it
    advance   observed, tensors of the state ->  logits of each task, and the new entries of the queues

For HORST the first stage ends after `HORSTCell.observe` of the first layer, and the second gives one entry of each
ring. For other cores there is only the first stage, the backbone: it costs most of a step.

Weights are inputs of the graphs. So one graph serves all models of an architecture.

Shapes: F frames, B states.
"""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from horst.export.step import trace_module
from horst.export.to_onnx import OPSET, write_proto
from horst.layers import HORST, CoreOutput, LayerState
from horst.layers.cell import Observed
from horst.models import Predictor

FORMAT = 1  # changes with the inputs and outputs of the stages
WEIGHT = "weight:"  # begins the names of inputs that are weights


class Observe(nn.Module):
    """frames (F, 3, H, W) -> the tensors that the second stage reads."""

    def __init__(self, model: Predictor) -> None:
        super().__init__()
        self.backbone = model.backbone
        core = model.core
        self.cell = core.cells[0] if isinstance(core, HORST) and _observes(model) else None

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        maps = self.backbone(frames)
        if self.cell is None:
            return (maps,)
        seen = self.cell.observe(maps, maps.new_zeros(maps.shape[0], dtype=torch.int64))
        return tuple(tensor for tensor in seen if tensor is not None)


class Advance(nn.Module):
    """What `Observe` gives and the tensors of the state, (B, ...) each -> logits, and an entry of each ring."""

    def __init__(self, model: Predictor) -> None:
        super().__init__()
        assert isinstance(model.core, HORST)
        self.core, self.head, self.read = model.core, model.head, model.read
        self.observes = _observes(model)

    def forward(self, observed: list[Tensor], state: list[Tensor]) -> tuple[Tensor, ...]:
        y, written = observed[0], list[Tensor]()
        for i, cell in enumerate(self.core.cells):
            ring = LayerState(*state[4 * i : 4 * i + 4])
            if i == 0 and self.observes:
                x, e, q, *f_q, key_value = observed
                seen = Observed(x, e, q, f_q[0] if f_q else None, key_value)
            else:
                seen = cell.observe(y, ring.count)
            statt = cell.attend_ring(seen.q, seen.f_q, ring)
            h, entry = cell.remember(seen, statt)
            y = cell.emit(seen.x, seen.e, statt, h)
            written += entry
        logits = self.read(CoreOutput(y, (seen.e,), (statt,)))
        return (*(logits[task] for task in logits), *written)


def _observes(model: Predictor) -> bool:
    """Whether the first layer's `observe` does not depend on the number of the frame."""
    return isinstance(model.core, HORST) and model.core.config.position == "none"


def stages(model: Predictor) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {"observe": Observe(model).eval()}
    if isinstance(model.core, HORST):
        found["advance"] = Advance(model).eval()
    return found


def architecture(model: Predictor, stage: str) -> dict[str, Any]:
    """Everything that determines the graph of a stage."""
    config = model.config
    core: dict[str, Any] = {"name": config.core.name, **asdict(config.core)}
    if stage == "observe":
        options = {k: v for k, v in config.backbone.options.items() if k not in ("pretrained", "frozen")}
        first = core if _observes(model) else None
        return {"format": FORMAT, "backbone": [config.backbone.name, options], "size": list(model.size), "core": first}
    maps = model.backbone.output_size(*model.size)
    return {"format": FORMAT, "core": core, "head": asdict(config.head), "maps": list(maps)}


def weights(stage: nn.Module) -> dict[str, Tensor]:
    """All tensors of a stage by name. Its graph has those as inputs that it reads."""
    return {name: tensor.detach() for name, tensor in (*stage.named_parameters(), *stage.named_buffers())}


def graph(model: Predictor, name: str) -> bytes:
    """The ONNX graph of a stage; its first inputs are the weights."""
    stage = stages(model)[name]
    named = weights(stage)
    frames = torch.zeros(2, model.backbone.input_channels, *model.size, dtype=torch.uint8)
    inputs: tuple[Any, ...] = (frames,)
    if name == "advance":
        with torch.no_grad():
            observed = list(Observe(model).eval()(frames))
            inputs = observed, [tensor for _, tensor in model.init_state(2, *model.size).tensors()]
    batch = Dim("batch", min=1)
    axes = torch.utils._pytree.tree_map(lambda _: {0: batch}, inputs)
    functional = _Functional(stage, list(named))
    program = trace_module(functional, (list(named.values()), *inputs), ([None] * len(named), axes))
    count = len(torch.utils._pytree.tree_leaves(inputs))
    proto = write_proto(program, [*(WEIGHT + key for key in named), *(f"input:{i}" for i in range(count))], None, OPSET)
    del proto.metadata_props[:]
    used = {name for node in proto.graph.node for name in node.input}
    kept = [value for value in proto.graph.input if value.name in used or not value.name.startswith(WEIGHT)]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return bytes(proto.SerializeToString())


class _Functional(nn.Module):
    """A stage as a function of its weights."""

    def __init__(self, stage: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.hidden = (stage,)  # in a tuple, so that its weights are not parameters of this module
        self.names = names

    def forward(self, weights: list[Tensor], *inputs: Any) -> Any:
        return torch.func.functional_call(self.hidden[0], dict(zip(self.names, weights, strict=True)), inputs)
