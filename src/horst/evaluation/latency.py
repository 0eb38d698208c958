"""Accuracy under latency: a prediction counts from the moment at which it is ready.

Offline evaluation stops the clock while a model computes. Here the model watches each clip live and every step takes
`cost` seconds. Frames that arrive during a step are dropped, except for the newest: the next step takes that one. A
slow model therefore answers late, and sees fewer frames; it is run on those alone.

    for result in evaluate_live(model, [(frames, label), ...], costs=[0.0, 0.04, step_time(model)]):
        result.accuracy[0.25]

At the observed fraction f of a clip of T frames, f * T / fps seconds after its start, the newest prediction that was
ready before that moment counts; if there is none it is a miss. With cost 0 this is offline evaluation: the first
ceil(f * T) frames have begun before that moment.
"""

import statistics
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from horst.errors import InputError
from horst.evaluation.evaluate import clip_output
from horst.models import BatchedStep, Predictor

FRACTIONS = 0.25, 0.5, 0.75, 1.0
COSTS = 0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64  # seconds per step
EPSILON = 1e-9  # seconds: times are sums of binary fractions

LabelledClip = tuple[NDArray[np.uint8], int]  # the frames of a clip, (T, H, W, 3), at the model's rate, and its label


@dataclass(frozen=True, slots=True)
class LiveResult:
    """Accuracy at one cost of a step."""

    cost: float  # seconds
    accuracy: dict[float, float]  # top-1 by observed fraction; a clip without a prediction is a miss
    answered: dict[float, float]  # the fraction of clips with a prediction, by observed fraction
    seen: float  # the fraction of frames that the model saw


def live_steps(frames: int, fps: float, cost: float) -> tuple[list[int], list[float]]:
    """The steps of a model that watches `frames` frames at `fps`, if each step takes `cost` seconds.

    Returns the frame that each step takes, and the time at which its prediction is ready, after the start of the clip.
    """
    if frames < 1 or not fps > 0:
        raise InputError(f"frames is {frames} and fps {fps}; both must be above 0")
    if not cost >= 0:
        raise InputError(f"cost is {cost}; it takes seconds from 0 on")
    taken, ready = list[int](), list[float]()
    frame, free = 0, 0.0
    while frame < frames:
        frame = max(frame, min(frames - 1, int((free + EPSILON) * fps)))  # the newest, or else it waits for the next
        free = max(free, frame / fps) + cost
        taken.append(frame)
        ready.append(free)
        frame += 1
    return taken, ready


def steps_before(ready: Sequence[float], moment: float) -> int:
    """The number of steps that were ready before `moment`."""
    return bisect_left(ready, moment - EPSILON)


def evaluate_live(
    model: Predictor,
    clips: Iterable[LabelledClip],
    costs: Sequence[float] = COSTS,
    fractions: Sequence[float] = FRACTIONS,
) -> list[LiveResult]:
    """Early recognition of clips that are watched live, for each cost of a step, by a model in evaluation mode."""
    if model.training:
        raise InputError("the model is in training mode: call model.eval() first")
    if set(model.head.classes) != {"action"}:
        raise InputError("this model anticipates: observed fractions are those of early recognition")
    device = next(model.parameters()).device
    right = np.zeros((len(costs), len(fractions)))
    answered, seen, total = np.zeros_like(right), np.zeros(len(costs)), 0
    for frames, label in clips:
        total += 1
        predicted: dict[tuple[int, ...], NDArray[np.int64]] = {}  # costs below a frame see the same frames
        for row, cost in enumerate(costs):
            taken, ready = live_steps(len(frames), model.fps, cost)
            seen[row] += len(taken) / len(frames)
            if tuple(taken) not in predicted:
                clip = torch.from_numpy(frames[taken]).permute(0, 3, 1, 2).unsqueeze(0).to(device)
                with torch.inference_mode():
                    predicted[tuple(taken)] = clip_output(model, clip).logits.action[0].argmax(-1).cpu().numpy()
            for column, fraction in enumerate(fractions):
                if count := steps_before(ready, fraction * len(frames) / model.fps):
                    answered[row, column] += 1
                    right[row, column] += predicted[tuple(taken)][count - 1] == label
    if not total:
        raise InputError("there are no clips")

    def shares(counts: NDArray[np.float64]) -> dict[float, float]:
        return dict(zip(fractions, (counts / total).tolist(), strict=True))

    return [LiveResult(c, shares(right[i]), shares(answered[i]), float(seen[i] / total)) for i, c in enumerate(costs)]


def step_time(model: Predictor, steps: int = 40) -> float:
    """Median seconds that a step of one stream takes on this machine, from pixels to probabilities."""
    step = BatchedStep(model)
    frame = torch.zeros(1, model.backbone.input_channels, *model.size, dtype=torch.uint8)
    taken = []
    for _ in range(steps + 5):
        begin = time.perf_counter()
        step(frame).logits.action.softmax(-1).cpu()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[5:])
