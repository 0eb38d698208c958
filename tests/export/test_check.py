"""The check of an exported graph: which differences it sees, and how small ones it lets through.

The graph is the step that is traced, without the trace: what is wrong with it is put in by each test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_graphs import MODELS, small

import horst
from horst.errors import ExportError
from horst.export import open_graph
from horst.export.check import LIMIT, compare, time_both
from horst.export.contract import FORMAT, What, contract
from horst.export.graph import Array, Graph
from horst.export.step import Step
from horst.models import Predictor

Change = Callable[[Sequence[Array], list[Array]], None]
"""Alters the outputs of a step in place, given its inputs."""
FRAMES = 12
TASKS, COUNT = 3, 4
"""Of the model with three tasks: how many outputs are logits, and which input counts the frames of a stream."""


@pytest.fixture(scope="module", params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Predictor:
    return small(request.param)


@pytest.fixture(scope="module")
def three_tasks() -> Predictor:
    return small("released, verb_noun_action")


def graph_of(model: Predictor, change: Change = lambda inputs, outputs: None) -> Graph:
    step = Step(model).eval()

    def run(inputs: Sequence[Array]) -> list[Array]:
        with torch.inference_mode():
            outputs = [out.numpy().copy() for out in step(*map(torch.from_numpy, inputs))]
        change(inputs, outputs)
        return outputs

    return Graph(contract(model, "step").about, run)


def refused(model: Predictor, change: Change, says: str = "it is not kept") -> None:
    with pytest.raises(ExportError, match=says):
        compare(graph_of(model, change), model, FRAMES)


def test_the_step_itself_passes(model: Predictor) -> None:
    assert compare(graph_of(model), model, FRAMES) <= 1e-6


@pytest.mark.parametrize("task", range(TASKS))
@pytest.mark.parametrize("stream", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(three_tasks: Predictor, task: int, stream: int, value: float) -> None:
    """In one logit of one task of one stream, and after several frames alone."""

    def change(inputs: Sequence[Array], outputs: list[Array]) -> None:
        if inputs[COUNT][0] == FRAMES // 2 - 1:
            outputs[task][stream, -1] = value

    refused(three_tasks, change, "NaN or infinity")


def test_a_model_that_answers_nan_is_refused(three_tasks: Predictor) -> None:
    """Also where the graph answers the same."""
    broken = small("released, verb_noun_action")
    with torch.no_grad():
        broken.head.fc_n.bias[0] = torch.inf
    refused(broken, lambda inputs, outputs: None, "NaN or infinity")


@pytest.mark.parametrize("task", range(TASKS))
def test_every_task_is_compared(three_tasks: Predictor, task: int) -> None:
    def change(inputs: Sequence[Array], outputs: list[Array]) -> None:
        outputs[task][:, 0] += 1e-2

    refused(three_tasks, change)


@pytest.mark.parametrize("frame", range(FRAMES))
@pytest.mark.parametrize("stream", [0, 1])
def test_every_frame_of_both_streams_is_compared(three_tasks: Predictor, frame: int, stream: int) -> None:
    ages = []

    def change(inputs: Sequence[Array], outputs: list[Array]) -> None:
        outputs[0][stream] += 1e-2 * (len(ages) == frame)
        ages.append(inputs[COUNT].tolist())

    refused(three_tasks, change)
    half = FRAMES // 2
    assert ages == [[i, i % half] for i in range(FRAMES)]  # the second stream starts again half way


def test_a_state_that_is_not_passed_on_is_noticed(model: Predictor) -> None:
    """Each output of the state: zeros in its place change the logits of later frames."""
    about = contract(model, "step").about
    tasks = len(about["tasks"])
    for i in range(len(about["state"])):

        def change(inputs: Sequence[Array], outputs: list[Array], i: int = i) -> None:
            outputs[tasks + i][:] = 0

        refused(model, change)


def test_streams_that_see_each_other_are_noticed(three_tasks: Predictor) -> None:
    """A graph that holds the ages of streams in a batch to be equal is wrong from the restart of the second one on."""

    def change(inputs: Sequence[Array], outputs: list[Array]) -> None:
        outputs[TASKS + COUNT - 1][:] = outputs[TASKS + COUNT - 1].max()

    refused(three_tasks, change)


@pytest.mark.parametrize("scale", [0.01, 1000.0])
def test_the_limit_is_relative_to_large_logits_alone(scale: float) -> None:
    """`scale` multiplies all logits."""
    model = small("paper, recognition")
    with torch.no_grad():
        model.head.fc.weight.mul_(scale)
        model.head.fc.bias.mul_(scale)
    largest = 0.0

    def watch(inputs: Sequence[Array], outputs: list[Array]) -> None:
        nonlocal largest
        largest = max(largest, float(np.abs(outputs[0]).max()))

    compare(graph_of(model, watch), model, FRAMES)
    limit = LIMIT * max(1.0, largest)
    assert (largest > 1) == (scale > 1)

    def add(error: float) -> Change:
        def change(inputs: Sequence[Array], outputs: list[Array]) -> None:
            outputs[0][1, 0] += error

        return change

    assert compare(graph_of(model, add(0.9 * limit)), model, FRAMES) == pytest.approx(0.9 * limit, rel=0.02)
    refused(model, add(1.1 * limit))


def test_the_limit() -> None:
    assert LIMIT == 1e-4


@pytest.mark.parametrize("classes", [1, 4, 6])
def test_another_number_of_classes_is_refused(classes: int) -> None:
    """One class would be compared with all of the model's five without an error."""
    model = small("paper, recognition")
    graph = graph_of(model)

    def run(inputs: Sequence[Array]) -> list[Array]:
        logits, *state = graph.run(inputs)
        return [np.resize(logits, (len(logits), classes)), *state]

    with pytest.raises(ExportError, match=r"action.*shape"):
        compare(replace(graph, run=run), model, FRAMES)


def test_a_graph_without_a_task_is_refused(three_tasks: Predictor) -> None:
    graph = graph_of(three_tasks)
    tasks = {task: count for task, count in graph.about["tasks"].items() if task != "noun"}

    def run(inputs: Sequence[Array]) -> list[Array]:
        found = graph.run(inputs)
        return [*found[:2], *found[3:]]

    with pytest.raises(ExportError, match="noun"):
        compare(Graph({**graph.about, "tasks": tasks}, run), three_tasks, FRAMES)


@pytest.mark.parametrize("what", ["step", "clip"])
def test_the_times_are_a_frame_s_and_not_exchanged(three_tasks: Predictor, what: What) -> None:
    """A run of the graph takes 40 ms and more: of a clip that is 10 ms a frame."""
    graph, frames = graph_of(three_tasks), 4

    def run(inputs: Sequence[Array]) -> list[Array]:
        time.sleep(0.04)
        return graph.run(inputs) if what == "step" else []

    about = {**graph.about, "what": what, "tasks": graph.about["tasks"] if what == "step" else {}}
    by_graph, by_model = time_both(Graph(about, run), three_tasks, frames, repeat=1)
    least = 40 if what == "step" else 10
    assert least <= by_graph < 2 * least
    assert 0 < by_model < by_graph


@pytest.mark.parametrize("what", ["step", "clip"])
def test_the_contract_is_of_the_model(three_tasks: Predictor, what: What) -> None:
    """Every entry that a client reads, from the model itself."""
    model = three_tasks
    model.labels = {task: [f"{task} {i}" for i in range(count)] for task, count in model.head.classes.items()}
    about = json.loads(json.dumps(contract(model, what).about))
    state = dict(model.init_state(1, *model.size).tensors())
    time = ["time"] if what == "clip" else []
    seen = {"name": "frames" if time else "frame", "shape": ["batch", *time, 3, 16, 24], "dtype": "uint8"}
    logits = [{"name": t, "shape": ["batch", *time, n], "dtype": "float32"} for t, n in model.head.classes.items()]
    ports = [
        {"name": name, "shape": ["batch", *tensor.shape[1:]], "dtype": str(tensor.dtype).removeprefix("torch.")}
        for name, tensor in (state.items() if what == "step" else ())
    ]
    normalise = model.backbone.normalise
    assert about == {
        "format": FORMAT,
        "horst": horst.__version__,
        "what": what,
        "model": model.core.config.about,
        "variant": "released",
        "size": [16, 24],
        "fps": model.fps,
        "pixels": "RGB, 0..255",
        "normalisation": {
            "in_graph": True,
            "mean": pytest.approx(normalise.mean.flatten().tolist(), abs=1e-4),
            "std": pytest.approx(normalise.std.flatten().tolist(), abs=1e-4),
        },
        "tasks": {"action": 5, "verb": 2, "noun": 3},
        "labels": model.labels,
        "unroll": None,
        "inputs": [seen, *ports],
        "outputs": [*logits, *({**port, "name": f"next_{port['name']}"} for port in ports)],
        "state": {port["name"]: f"next_{port['name']}" for port in ports},
        "start": "zeros",
    }


@pytest.mark.parametrize("format", ["onnx", "torch", "aoti"])
@pytest.mark.parametrize("content", [None, b"", b"garbage", b"PK\x03\x04garbage"], ids=["none", "empty", "text", "zip"])
def test_a_file_that_is_no_graph_is_told(tmp_path: Path, format: str, content: bytes | None) -> None:
    path = tmp_path / "model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ExportError, match=str(path)):
        open_graph(path, format)  # type: ignore[arg-type]
