"""The step of a model as a function of tensors, traced by torch.export. A stream starts from a state of zeros."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from horst.errors import ExportError
from horst.export.contract import Contract
from horst.layers import HORST, HORSTState, LayerState, RecurrentState
from horst.layers.state import Entry
from horst.models import Predictor

KEPT = ("keys", "filters", "values")  # the tensors of a layer's ring


@dataclass(frozen=True, slots=True)
class FromZeros(LayerState):
    """A ring that may be empty. Before a stream's first frame, the last slot is read as the zero state.

    It is not written back: after the first frame that slot is invalid until it is filled.
    """

    zero: Entry  # of the all-zero state, batch 1; key and value are the same at every pixel and have only one

    def entries(self) -> list[Entry]:
        kept = LayerState.entries(self)
        fresh = self.count == 0
        first = (
            torch.where(fresh.view(-1, *(1,) * (there.ndim - 1)), zero, there)
            for zero, there in zip(self.zero, kept[-1], strict=True)
        )
        return [*kept[:-1], Entry(*first)]


class StepModule(nn.Module):
    """(frame, the tensors of the state) -> (logits of each task, the tensors of the next state)."""

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
            zero = Entry(*(self.get_buffer(f"zero_{name}_{i}") for name in KEPT))
            layers.append(FromZeros(keys, filters, values, count, zero))
        return HORSTState(tuple(layers), core.config)


def example(contract: Contract, batch: int) -> tuple[Tensor, ...]:
    """The inputs of a first step: zeros of the right shapes."""
    return tuple(
        torch.zeros([batch, *(n for n in port.shape if isinstance(n, int))], dtype=getattr(torch, port.dtype))
        for port in contract.inputs
    )


def trace(model: Predictor, contract: Contract, unroll: int | None) -> ExportedProgram:
    """The step of a model as a torch.export program, for batches of any size; `contract` is that of the step."""
    if next(model.parameters()).device.type != "cpu" or next(model.parameters()).dtype != torch.float32:
        raise ExportError("the model is not in fp32 on the CPU: load it there to export it")
    if model.training:
        raise ExportError("the model is in training mode: call model.eval() first")
    batch = Dim("batch", min=1)
    axes = tuple({0: batch} for _ in contract.inputs)
    step = StepModule(model, unroll).eval()
    program = trace_module(step, example(contract, 2), (axes[0], axes[1:]))
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                node.meta.pop("stack_trace", None)  # paths on this machine
    return program


def trace_module(module: nn.Module, inputs: tuple[Any, ...], axes: tuple[Any, ...]) -> ExportedProgram:
    """`axes`: the axes of variable length of each input. ExportError if torch cannot trace the module."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch's internals
        try:
            return torch.export.export(module, inputs, dynamic_shapes=axes, strict=False)
        except (RuntimeError, ValueError, torch._dynamo.exc.TorchDynamoException) as error:
            raise ExportError(f"torch cannot trace this model's step: {error}") from error
