"""A traced step, or a clip of such steps, as ONNX with the names of the contract, and the contract in its metadata."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from horst.errors import ConfigError, ExportError
from horst.export.contract import KEY, Contract
from horst.extras import require

OPSET = 20
OPSETS = range(18, 24)  # those that torch writes without a conversion


def to_onnx(program: ExportedProgram, contract: Contract, opset: int = OPSET) -> Any:
    """The ModelProto of a step."""
    if opset not in OPSETS:
        raise ConfigError(f"opset is {opset}; choose from {OPSETS[0]} to {OPSETS[-1]}")
    inputs, outputs = ([port.name for port in ports] for ports in (contract.inputs, contract.outputs))
    proto = write_proto(program, inputs, outputs, opset)
    describe(proto, contract)
    return proto


def write_proto(program: ExportedProgram, inputs: list[str], outputs: list[str] | None, opset: int) -> Any:
    """The ModelProto of a program, without source locations. Outputs get torch's names if none are given."""
    for module in ("onnxscript", "onnx"):
        require(module, "export")
    with torch.no_grad(), _quiet():
        try:
            names: dict[str, Any] = {"input_names": inputs, "output_names": outputs}
            written = torch.onnx.export(program, dynamo=True, opset_version=opset, verbose=False, **names)
        except torch.onnx.errors.OnnxExporterError as error:
            raise ExportError(f"torch cannot write this model's step as ONNX: {error}") from error
    assert written is not None
    proto: Any = written.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # source locations, with paths on this machine
    del proto.graph.value_info[:]
    del proto.graph.metadata_props[:]
    return proto


def clip_of(step: Any, of_step: Contract, of_clip: Contract) -> Any:
    """The ModelProto of a clip from that of its step: ONNX's Scan runs the step over the frames, from a state of zeros.

    So a clip has the same outputs as steps, and any number of frames: a traced Python loop would have a fixed one.
    """
    onnx = require("onnx", "export")
    helper, types = onnx.helper, onnx.TensorProto
    kinds = {"float32": types.FLOAT, "int64": types.INT64, "uint8": types.UINT8}

    def values(ports: Any) -> list[Any]:
        return [helper.make_tensor_value_info(p.name, kinds[p.dtype], list(p.shape)) for p in ports]

    tasks = of_clip.outputs
    # Scan needs the state first, in and out. Weights stay outside of the body, which can access them.
    inner = {port.name: port for port in of_step.outputs}
    after = [inner[of_step.about["state"][port.name]] for port in of_step.state]
    body = helper.make_graph(
        list(step.graph.node),
        "step",
        values([*of_step.state, of_step.inputs[0]]),
        values([*after, *(inner[task.name] for task in tasks)]),
    )
    frames = of_clip.inputs[0].name
    nodes = [helper.make_node("Shape", [frames], ["clip_batch"], start=0, end=1)]
    constants = []
    for port in of_step.state:
        rest = [n for n in port.shape if isinstance(n, int)]
        constants.append(helper.make_tensor(f"clip_rest_{port.name}", types.INT64, [len(rest)], rest))
        zero = helper.make_tensor("zero", kinds[port.dtype], [1], [0])
        nodes += [
            helper.make_node("Concat", ["clip_batch", f"clip_rest_{port.name}"], [f"clip_shape_{port.name}"], axis=0),
            helper.make_node("ConstantOfShape", [f"clip_shape_{port.name}"], [f"clip_start_{port.name}"], value=zero),
        ]
    nodes.append(
        helper.make_node(
            "Scan",
            [*(f"clip_start_{port.name}" for port in of_step.state), frames],
            [*(f"clip_end_{port.name}" for port in of_step.state), *(f"clip_{task.name}" for task in tasks)],
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=[1] * len(tasks),
        )
    )
    # In the body the logits of a frame have the task's name; names must be unique in the whole model.
    nodes += [helper.make_node("Identity", [f"clip_{task.name}"], [task.name]) for task in tasks]
    names = {task.name: f"{task.name}_of_frame" for task in tasks}
    for output in body.output:
        output.name = names.get(output.name, output.name)
    for node in body.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    graph = helper.make_graph(
        nodes, "clip", values(of_clip.inputs), values(tasks), [*step.graph.initializer, *constants]
    )
    clip = onnx.ModelProto()
    clip.CopyFrom(step)
    clip.graph.CopyFrom(graph)
    describe(clip, of_clip)
    onnx.checker.check_model(clip)
    return clip


def describe(proto: Any, contract: Contract) -> None:
    """Write names of axes and the contract into a model."""
    for values, ports in ((proto.graph.input, contract.inputs), (proto.graph.output, contract.outputs)):
        for value, port in zip(values, ports, strict=True):
            assert value.name == port.name
            for axis, length in zip(value.type.tensor_type.shape.dim, port.shape, strict=True):
                setattr(axis, "dim_param" if isinstance(length, str) else "dim_value", length)
    proto.producer_name, proto.producer_version = "horst", contract.about["horst"]
    proto.graph.name = contract.what
    del proto.metadata_props[:]
    entry = proto.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(contract.about, ensure_ascii=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress and deprecation messages of torch's exporter."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
