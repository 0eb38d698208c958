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
from horst.export.check import LIMIT, compare, random_frames, time_both
from horst.export.contract import FORMAT, What, contract
from horst.export.graph import Array, Graph
from horst.export.step import StepModule
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
    step = StepModule(model).eval()

    def run(inputs: Sequence[Array]) -> list[Array]:
        with torch.inference_mode():
            outputs = [out.numpy().copy() for out in step(*map(torch.from_numpy, inputs))]
        change(inputs, outputs)
        return outputs

    return Graph(contract(model, "step").about, run)


def refused(model: Predictor, change: Change, says: str = "nothing was written") -> None:
    with pytest.raises(ExportError, match=says):
        compare(graph_of(model, change), model, FRAMES)


def test_the_step_itself_passes(model: Predictor) -> None:
    assert compare(graph_of(model), model, FRAMES) < LIMIT / 10


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


def clip_graph(model: Predictor, change: Callable[[list[Array]], None] = lambda logits: None) -> Graph:
    """The model over whole clips."""

    def run(inputs: Sequence[Array]) -> list[Array]:
        with torch.inference_mode():
            found = model(torch.from_numpy(inputs[0]))[0].logits
        logits = [found[task].numpy().copy() for task in found]
        change(logits)
        return logits

    return Graph(contract(model, "clip").about, run)


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_every_frame_of_a_clip_is_compared(three_tasks: Predictor, frames: int) -> None:
    """No stream of a clip starts afresh half way."""
    assert compare(clip_graph(three_tasks), three_tasks, frames) < LIMIT / 10
    for frame in range(frames):
        for stream in range(2):

            def change(logits: list[Array], frame: int = frame, stream: int = stream) -> None:
                logits[1][stream, frame, 0] += 0.1

            with pytest.raises(ExportError, match=r"differs from the model by 1\.0e-01 on logits"):
                compare(clip_graph(three_tasks, change), three_tasks, frames)


def test_the_difference_is_the_largest_of_all(three_tasks: Predictor) -> None:
    def change(logits: list[Array]) -> None:
        logits[0][0, 1, 2] += 3e-5
        logits[2][1, 2, 1] -= 6e-5

    assert compare(clip_graph(three_tasks, change), three_tasks, 4) == pytest.approx(6e-5, abs=2e-6)


@pytest.mark.parametrize("frames", [4, 5])
def test_the_second_stream_starts_afresh_half_way(three_tasks: Predictor, frames: int) -> None:
    ages: list[list[int]] = []

    def watch(inputs: Sequence[Array], outputs: list[Array]) -> None:
        ages.append(inputs[COUNT].tolist())

    compare(graph_of(three_tasks, watch), three_tasks, frames)
    half = frames // 2
    assert [first for first, _ in ages] == list(range(frames))
    assert [second for _, second in ages] == [*range(half), *range(frames - half)]


def test_frames_are_drawn_by_their_seed(three_tasks: Predictor) -> None:
    seen = random_frames(three_tasks, 2, 3, 0)
    assert (seen.shape, seen.dtype) == ((2, 3, 3, 16, 24), torch.uint8)
    assert (int(seen.min()), int(seen.max())) == (0, 255)
    assert torch.equal(seen, random_frames(three_tasks, 2, 3, 0))
    assert not torch.equal(seen, random_frames(three_tasks, 2, 3, 1))
    shown: list[Array] = []
    graph = clip_graph(three_tasks)

    def run(inputs: Sequence[Array]) -> list[Array]:
        shown.append(inputs[0])
        return graph.run(inputs)

    for seed in ({}, {"seed": 0}, {"seed": 1}):
        compare(replace(graph, run=run), three_tasks, 3, **seed)
    assert np.array_equal(shown[0], seen.numpy())
    assert np.array_equal(shown[0], shown[1])
    assert not np.array_equal(shown[0], shown[2])


@pytest.mark.parametrize("what", ["step", "clip"])
def test_times_are_medians_without_those_of_the_warm_up(
    three_tasks: Predictor, monkeypatch: pytest.MonkeyPatch, what: What
) -> None:
    """The clock is turned by the graph: 1 s in each of three runs to warm up, then 1, 9 and 2 ms."""
    clock, taken = [0.0], iter([1.0, 1.0, 1.0, 0.001, 0.009, 0.002])
    graph = graph_of(three_tasks) if what == "step" else clip_graph(three_tasks)
    shown: list[int] = []

    def run(inputs: Sequence[Array]) -> list[Array]:
        clock[0] += next(taken)
        shown.append(inputs[0].shape[1] if what == "clip" else int(inputs[COUNT][0]))
        return graph.run(inputs)

    monkeypatch.setattr("horst.export.check.time.perf_counter", lambda: clock[0])
    by_graph, by_model = time_both(replace(graph, run=run), three_tasks, 4, repeat=3)
    assert by_graph == pytest.approx(2.0 if what == "step" else 0.5)
    assert by_model == 0.0
    assert shown == (list(range(6)) if what == "step" else [4] * 6)  # a step goes on from the state before
    assert list(taken) == []


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
