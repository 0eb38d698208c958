"""The step of a model as a torch.export program, for batches of any size."""

from __future__ import annotations

import warnings

import torch
from torch.export import Dim, ExportedProgram

from horst.errors import ExportError
from horst.export.contract import Contract
from horst.export.step import StepModule, example
from horst.models import Predictor


def trace(model: Predictor, contract: Contract, unroll: int | None) -> ExportedProgram:
    """`contract` is that of the step."""
    if next(model.parameters()).device.type != "cpu" or next(model.parameters()).dtype != torch.float32:
        raise ExportError("the model is not in fp32 on the CPU: load it there to export it")
    if model.training:
        raise ExportError("the model is in training mode: call model.eval() first")
    batch = Dim("batch", min=1)
    axes = tuple({0: batch} for _ in contract.inputs)
    step = StepModule(model, unroll).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own internals
        try:
            program = torch.export.export(step, example(contract, 2), dynamic_shapes=(axes[0], axes[1:]), strict=False)
        except (RuntimeError, ValueError, torch._dynamo.exc.TorchDynamoException) as error:
            raise ExportError(f"torch cannot trace this model's step: {error}") from error
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                node.meta.pop("stack_trace", None)  # paths of the machine that exported
    return program
