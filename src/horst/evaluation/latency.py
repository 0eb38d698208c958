"""Accuracy where thinking takes time: a prediction counts from the moment at which it is ready.

Offline evaluation stops the clock while a model computes. Here a clip is watched live by a model that is busy for
`cost` seconds with every frame. Frames that arrive meanwhile are lost, but for the newest: when the model is free, it
takes the frame that is shown then. So a slow model answers late, and it sees fewer frames: it is run on those alone.

    for row in watched_live(model, [(frames, label), ...], costs=[0.0, 0.04, measured(model)]):
        row.accuracy[0.25]

At the observed fraction f of a clip of T frames, f * T / fps seconds after its start, the newest answer that was ready
before that moment counts; where there is none it is a miss. Without a cost that is offline evaluation: the first ceil(f
* T) frames have begun before that moment.

Shapes: T frames, H x W pixels, C classes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from horst.errors import InputError
from horst.models import BatchedStep, Predictor

FRACTIONS = 0.25, 0.5, 0.75, 1.0
BUDGETS = 0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64
"""Seconds a step."""
TINY = 1e-9
"""Seconds: times are sums of binary fractions."""

Shown = tuple[NDArray[np.uint8], int]
"""The frames of a clip, (T, H, W, 3), at the model's rate, and its label."""


@dataclass(frozen=True, slots=True)
class Question:
    """A frame that the model looked at."""

    frame: int
    """From 0 on."""
    ready: float
    """Seconds after the clip's start at which the answer was there."""


@dataclass(frozen=True, slots=True)
class Live:
    """How good a model is at one cost of a step."""

    cost: float
    """Seconds."""
    accuracy: dict[float, float]
    """Top-1 by observed fraction, in 0..1. A clip without an answer is a miss."""
    answered: dict[float, float]
    """The share of clips of which there was an answer, by observed fraction."""
    seen: float
    """The share of frames that the model looked at."""


def questions(frames: int, fps: float, cost: float) -> list[Question]:
    """What a model is asked that watches `frames` frames, 1/fps seconds apart, at `cost` seconds a step."""
    if frames < 1 or not fps > 0:
        raise InputError(f"frames is {frames} and fps {fps}; both must be above 0")
    if not cost >= 0:
        raise InputError(f"cost is {cost}; it takes seconds from 0 on")
    asked: list[Question] = []
    frame, free = 0, 0.0
    while frame < frames:
        newest = min(frames - 1, int((free + TINY) * fps))
        frame = max(frame, newest)  # the latest wins; where nothing is new, the next one is waited for
        free = max(free, frame / fps) + cost
        asked.append(Question(frame, free))
        frame += 1
    return asked


def answer_at(asked: Sequence[Question], moment: float) -> int | None:
    """Which question's answer is the newest that was ready before `moment`; None where there is none."""
    ready = [i for i, question in enumerate(asked) if question.ready < moment - TINY]
    return ready[-1] if ready else None


def watched_live(
    model: Predictor,
    clips: Iterable[Shown],
    costs: Sequence[float] = BUDGETS,
    fractions: Sequence[float] = FRACTIONS,
) -> list[Live]:
    """Early recognition of clips that are watched while they unfold, once for each cost of a step.

    Args:
        model: In evaluation mode.
        clips: Frames at the model's rate, with their labels.
        costs: Seconds a step.
        fractions: Observed ones, above 0 and up to 1.
    """
    if model.training:
        raise InputError("the model is in training mode: call model.eval() first")
    if set(model.head.classes) != {"action"}:
        raise InputError("this model anticipates: observed fractions are those of early recognition")
    right = np.zeros((len(costs), len(fractions)))
    answered, seen, total = np.zeros_like(right), np.zeros(len(costs)), 0
    for frames, label in clips:
        total += 1
        said: dict[tuple[int, ...], NDArray[np.int64]] = {}  # costs below a tick see the same frames
        for row, cost in enumerate(costs):
            asked = questions(len(frames), model.fps, cost)
            looked_at = tuple(question.frame for question in asked)
            if looked_at not in said:
                said[looked_at] = _answers(model, frames[list(looked_at)])
            seen[row] += len(asked) / len(frames)
            for column, fraction in enumerate(fractions):
                newest = answer_at(asked, fraction * len(frames) / model.fps)
                if newest is not None:
                    answered[row, column] += 1
                    right[row, column] += said[looked_at][newest] == label
    if not total:
        raise InputError("there are no clips")
    return [
        Live(
            cost,
            dict(zip(fractions, (right[row] / total).tolist(), strict=True)),
            dict(zip(fractions, (answered[row] / total).tolist(), strict=True)),
            float(seen[row] / total),
        )
        for row, cost in enumerate(costs)
    ]


def measured(model: Predictor, steps: int = 40) -> float:
    """Seconds that a step of one stream takes here, from pixels to probabilities: the median of some."""
    streams = BatchedStep(model)
    frame = torch.zeros(1, model.backbone.input_channels, *model.size, dtype=torch.uint8)
    taken = []
    for _ in range(steps + 5):
        begin = time.perf_counter()
        streams(frame).logits.action.softmax(-1).cpu()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[5:])


def _answers(model: Predictor, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(T,) the likeliest class after each frame: a clip gives what steps would."""
    device = next(model.parameters()).device
    with torch.inference_mode():
        out, _ = model(torch.from_numpy(frames).permute(0, 3, 1, 2).unsqueeze(0).to(device))
    return out.logits.action[0].argmax(-1).cpu().numpy()
