"""Compare an exported graph with its model: outputs of streams of different ages, and time."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horst.errors import ExportError
from horst.export.graph import Array, Graph
from horst.models import Predictor

LIMIT = 1e-4  # the largest difference that counts as equal, for logits of size 1
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class ExportReport:
    """About a file that was written and checked."""

    path: Path
    size: int  # bytes
    frames: int  # frames that were compared, of two streams
    error: float  # the largest difference of logits
    graph_ms: float  # median time of a frame of one stream
    eager_ms: float
    threads: int


def compare(graph: Graph, model: Predictor, frames: int, *, seed: int = 0) -> float:
    """The largest difference between two streams of `frames` frames through `graph` and through `model`.

    The streams share a batch of the graph; if the graph is a step, the second stream is reset half way.
    """
    seen = random_frames(model, 2, frames, seed)
    unroll, clip = graph.about["unroll"], graph.about["what"] == "clip"
    half = frames if clip else frames // 2
    gaps, sizes = [0.0], [0.0]
    found = _answers(graph, seen, half)
    with torch.inference_mode():
        for stream in range(2):
            state = model.init_state(1, *model.size)
            for i in range(frames):
                if stream == 1 and i == half:
                    state = model.init_state(1, *model.size)
                out, state = model.step(seen[stream, i : i + 1], state, unroll=unroll)
                for task in out.logits:
                    wanted = out.logits[task][0].numpy()
                    answered = _answer(found[i], task, stream, wanted.shape)
                    if not (np.isfinite(answered).all() and np.isfinite(wanted).all()):
                        who = "model" if not np.isfinite(wanted).all() else "exported graph"
                        raise ExportError(f"the {who} gives NaN or infinity at frame {i}, {task}: nothing was written")
                    gaps.append(float(np.abs(answered - wanted).max()))
                    sizes.append(float(np.abs(wanted).max()))
    largest, scale = max(gaps), max(sizes)  # all are finite: `max` would drop NaN
    if largest > LIMIT * max(1.0, scale):
        raise ExportError(
            f"the exported graph differs from the model by {largest:.1e} on logits of up to {scale:.1e}: "
            "nothing was written"
        )
    return largest


def _answer(found: dict[str, Array], task: str, stream: int, shape: tuple[int, ...]) -> Array:
    """The graph's logits of a task for one stream, checked for the model's shape: others might broadcast."""
    if task not in found:
        raise ExportError(f"the exported graph has no output for {task}: nothing was written")
    answered: Array = found[task][stream]
    if answered.shape != shape:
        raise ExportError(f"the exported graph's {task} has shape {answered.shape}, not {shape}: nothing was written")
    return answered


def random_frames(model: Predictor, streams: int, frames: int, seed: int) -> Tensor:
    """(B, T, C, H, W)"""
    generator = torch.Generator().manual_seed(seed)
    shape = (streams, frames, model.backbone.input_channels, *model.size)
    if model.backbone.precomputed:
        return torch.randn(shape, generator=generator)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def _answers(graph: Graph, seen: Tensor, reset: int) -> list[dict[str, Array]]:
    """Logits by frame and task. The second stream of a step is reset before frame `reset`."""
    if graph.about["what"] == "clip":
        whole = graph.clip(seen.numpy())
        return [{task: logits[:, i] for task, logits in whole.items()} for i in range(seen.shape[1])]
    found = []
    state = graph.start(2)
    for i in range(seen.shape[1]):
        if i == reset:
            for ring in state:
                ring[1] = 0
        logits, state = graph.step(seen[:, i].numpy(), state)
        found.append(logits)
    return found


def time_both(graph: Graph, model: Predictor, frames: int, *, repeat: int) -> tuple[float, float]:
    """Median milliseconds per frame of one stream, of the graph and of the model, measured alternately."""
    unroll, clip = graph.about["unroll"], graph.about["what"] == "clip"
    count = frames if clip else 1
    seen = random_frames(model, 1, count, 0)
    frame = seen[:, 0]

    def by_graph(state: Any) -> Any:
        return graph.clip(seen.numpy()) if clip else graph.step(frame.numpy(), state)[1]

    def by_model(state: Any) -> Any:
        return model(seen, unroll=unroll) if clip else model.step(frame, state, unroll=unroll)[1]

    states: list[Any] = [None, None] if clip else [graph.start(1), model.init_state(1, *model.size)]
    taken: tuple[list[float], list[float]] = [], []
    with torch.inference_mode():
        for _ in range(WARM_UP + repeat):
            for i, run in enumerate((by_graph, by_model)):
                begin = time.perf_counter()
                states[i] = run(states[i])
                taken[i].append(1e3 * (time.perf_counter() - begin))
    of_graph, of_model = (statistics.median(times[WARM_UP:]) for times in taken)
    return of_graph / count, of_model / count
