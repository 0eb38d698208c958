"""Teaching by a new head alone: the core of a trained model watches, and what it says of each frame gets new names.

Nothing but the head is trained, so every clip is watched once, and a few copies of it. The head is a linear layer on
the normed means of y: its loss has one minimum, which L-BFGS finds in a second. So cross-validation costs nothing.

Shapes: N frames of all clips, T frames of one, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from horst.errors import ConfigError
from horst.finetune.lesson import Lesson, Progress, Report, Trial
from horst.finetune.views import copy, plain
from horst.heads import RecognitionHead, create_head
from horst.heads.pool import FrameNorm
from horst.models.predictor import Predictor
from horst.training.config import Loss
from horst.training.losses import frame_weights

COPIES = 6
"""Of each clip, as far as the time allows."""
DECAY = 0.01
"""Of the squared weights: half a dozen clips would let any of them grow without end."""
STEPS = 100


@dataclass(frozen=True, slots=True)
class _Watched:
    clip: int
    means: Tensor
    """(T, C) of y."""


def learn(lesson: Lesson, base: Predictor, seed: int, report: Report) -> tuple[Predictor, Trial | None]:
    """A model of the lesson's labels on the backbone and core of `base`, which is changed; and how its likes did."""
    if not isinstance(base.head, RecognitionHead):
        raise ConfigError("a model that anticipates cannot be taught: choose one of early recognition, as 'somethings'")
    base.eval().requires_grad_(False)
    first, more = _watch(lesson, base, seed, report)
    trial = None
    for held in lesson.folds():
        head, _ = _head(lesson, base, [w for w in first + more if w.clip not in held])
        for index in held:
            said = _says(head, first[index].means)
            tried = Trial.of(said, lesson.targets[index])
            trial = tried if trial is None else trial + tried
    head, loss = _head(lesson, base, first + more)
    report(Progress(0.99, 1 + COPIES, 1 + COPIES, loss, "saving"))
    model = Predictor(
        base.backbone, base.core, head, size=base.size, fps=base.fps, labels={"action": list(lesson.labels)}
    )
    return model.eval(), trial


def _watch(lesson: Lesson, base: Predictor, seed: int, report: Report) -> tuple[list[_Watched], list[_Watched]]:
    """All clips as they are, in order; and copies, as many as fit into the time."""
    rng = np.random.default_rng(seed)
    first: list[_Watched] = []
    more: list[_Watched] = []
    begun, copies = lesson.spent, COPIES
    for look in range(1 + COPIES):
        if look > copies:
            break
        for index in range(len(lesson.sources)):
            view = plain if look == 0 else lambda clip, fps, size: copy(clip, fps, size, rng)
            frames = view(lesson.clip(index), base.fps, base.size)
            (more if look else first).append(_Watched(index, _means(base, frames)))
            done = (look + (index + 1) / len(lesson.sources)) / (1 + copies)
            part = min(0.98, max(done, lesson.spent if look else 0.0))
            report(Progress(part, look + 1, 1 + copies, None, "watching the clips"))
        # what a look has cost so far, and what the heads will cost, say how many more there is time for
        cost = 1.1 * (lesson.spent - begun) / (look + 1)
        if look == 0:
            _head(lesson, base, first)  # the first of all loads what it needs, so the second one is timed
            started = lesson.spent
            _head(lesson, base, first)
            heads = (1 + len(lesson.folds())) * (lesson.spent - started)
        left = max(0.0, 1 - lesson.spent - (1 + look) * heads)
        copies = min(copies, look + int(left / (cost + heads)))
    return first, more


@torch.inference_mode()
def _means(base: Predictor, frames: Tensor) -> Tensor:
    out, _ = base.core(base.backbone(frames).unsqueeze(0))
    return out.y[0].mean((-2, -1)).clone()


def _head(lesson: Lesson, base: Predictor, watched: list[_Watched]) -> tuple[RecognitionHead, float]:
    """The head that tells apart what was watched. Later frames count more, and all labels the same."""
    means = torch.cat([w.means for w in watched]).clone()
    target = torch.cat([torch.full((len(w.means),), lesson.targets[w.clip]) for w in watched])
    weight = torch.cat([_ramp(len(w.means)) * lesson.weight(w.clip) for w in watched])
    weight /= weight.sum()
    head = create_head("recognition", base.core.channels, num_classes=len(lesson.labels), norm="batch")
    assert isinstance(head, RecognitionHead)
    head.eval()
    norm = head.pool.norms["y"]
    assert isinstance(norm, FrameNorm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    with torch.no_grad():
        norm.running_mean.copy_(weight @ means)
        norm.running_var.copy_(weight @ (means - norm.running_mean).square())
        norm.weight.copy_((1 + norm.eps / norm.running_var.clamp_min(norm.eps / 100)).sqrt())  # eps is no small part
        normed = norm(means)
        head.fc.weight.zero_()
        head.fc.bias.zero_()
    optimiser = torch.optim.LBFGS(head.fc.parameters(), max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        missed = (F.cross_entropy(head.fc(normed), target, reduction="none") * weight).sum()
        total: Tensor = missed + DECAY * head.fc.weight.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    return head, loss().item()


def _says(head: RecognitionHead, means: Tensor) -> Tensor:
    """(T, classes) of the means that `head` would take itself."""
    with torch.no_grad():
        return head(y=means.clone()[..., None, None]).action


def _ramp(frames: int) -> Tensor:
    here = torch.ones(1, frames, dtype=torch.bool)
    return frame_weights(Loss(steps="every", ramp=True), here, here, 0)[0]
