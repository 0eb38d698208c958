"""A clip from the ONNX graph of a step: ONNX's Scan runs the step over the frames, from a state of zeros.

So a clip has the same outputs as steps, and any number of frames: a traced Python loop would have a fixed one.
"""

from __future__ import annotations

from typing import Any

from horst.export.contract import Contract
from horst.export.to_onnx import describe, import_onnx

TIME_AXIS = 1


def clip_of(step: Any, of_step: Contract, of_clip: Contract) -> Any:
    """The ModelProto of a clip from that of its step."""
    onnx = import_onnx()
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
            scan_input_axes=[TIME_AXIS],
            scan_output_axes=[TIME_AXIS] * len(tasks),
        )
    )
    # In the body the logits of a frame have the task's name; names must be unique in the whole model.
    nodes += [helper.make_node("Identity", [f"clip_{task.name}"], [task.name]) for task in tasks]
    _rename(body, {task.name: f"{task.name}_of_frame" for task in tasks})
    graph = helper.make_graph(
        nodes, "clip", values(of_clip.inputs), values(tasks), [*step.graph.initializer, *constants]
    )
    clip = onnx.ModelProto()
    clip.CopyFrom(step)
    clip.graph.CopyFrom(graph)
    describe(clip, of_clip)
    onnx.checker.check_model(clip)
    return clip


def _rename(graph: Any, names: dict[str, str]) -> None:
    for output in graph.output:
        output.name = names.get(output.name, output.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
