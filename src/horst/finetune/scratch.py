"""Teaching from nothing: a small network that sees the recorded clips alone, over and over, until the time is over.

It knows no hands and no tables beforehand. A larger network, trained without disguise, soon knew its own clips by heart
and named fresh ones no better than by chance. So this one is small, for many steps in little time, it begins as a
difference of frames, and it sees clips in false colours and moved aside. docs/guides/finetune.md has how far that goes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.clips import Clip
from horst.finetune.lesson import Lesson, Progress, Report, Trial
from horst.finetune.views import copy, plain
from horst.heads.pool import FrameNorm
from horst.layers.blocks import ConcatOutput
from horst.layers.cell import HORSTCell
from horst.models.predictor import Predictor
from horst.models.registry import create_model
from horst.training.config import Loss, Optimiser
from horst.training.losses import clip_loss, frame_weights
from horst.training.optimisers import create_optimiser

ENOUGH = 10
"""Clips of each label below which it is hardly worth the while."""
SIZE, FPS = (48, 48), 6.0
KEPT = (60, 60)
"""The size in which clips are kept: copies show a part of it."""
KEPT_BYTES = 256 * 2**20
"""Of clips at most; others are read anew each time."""
BATCH = 8
WARMUP = 20
LOSS = Loss(steps="every", ramp=True, label_smoothing=0.1)
OPTIMISER = Optimiser(name="adamw", lr=0.004, weight_decay=0.02, lookahead=False)
ASIDE = 0.2
"""The part of a frame's side by which a copy is moved at most."""
UNTRIED = 0.75
"""The part of the time after which held-out clips are tried, and then learnt from too."""


def create(labels: list[str], seed: int) -> Predictor:
    """The network: `horst_tiny` with one narrow layer, on small frames."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = create_model(
            "horst_tiny",
            labels={"action": labels},
            num_classes=len(labels),
            variant="released",
            backbone={"name": "stem", "widths": [12, 24, 24], "norm": "channel"},
            hidden=(24,),
            stride=(1,),
            order=3,
            size=SIZE,
            fps=FPS,
        )
    for cell in model.modules():
        if isinstance(cell, HORSTCell):
            _differ(cell)
    return model


@torch.no_grad()
def _differ(cell: HORSTCell) -> None:
    """Let a layer begin as a difference of frames: it emits what it makes of e + STATT, and STATT is -e of before.

    A value is the observation itself, normed, with its sign changed. SiLU of a normed map has a mean of about 0.2 and a
    deviation of about 0.55, and the spatial attention is about a half at first: hence 1.1 and -0.4.
    """
    assert isinstance(cell.output, ConcatOutput)
    channels, made = cell.channels, cell.key_value
    same = torch.arange(channels)
    value = made.observed.weight[channels:]
    value.zero_()
    value[same, same, 1, 1] = -1
    made.recurrent.weight[channels:] *= 0.05
    made.norm.weight[channels:] = 1.1
    made.norm.bias[channels:] = -0.4
    cell.output.ff.conv.weight[:, : cell.in_channels] = 0  # what stands still is not looked at


def learn(lesson: Lesson, seed: int, report: Report) -> tuple[Predictor, Trial | None]:
    """A model of the lesson's labels, and how it did on held-out clips before it learnt from these too."""
    model = create(lesson.labels, seed)
    rng = np.random.default_rng(seed)
    optimiser = create_optimiser(model.parameters(), OPTIMISER)
    shelf = _Shelf(lesson)
    folds = lesson.folds()
    held = folds[0] if folds else []
    everything = list(range(len(lesson.sources)))
    used = [i for i in everything if i not in held]
    queue: list[int] = []
    trial, step, shown = None, 0, 0
    while lesson.spent < 1 or step < 2:
        if held and trial is None and lesson.spent > UNTRIED:
            trial, used, queue = _try(model, lesson, used, held), everything, []
        while len(queue) < BATCH:
            queue += rng.permutation(used).tolist()
        chosen, queue = queue[:BATCH], queue[BATCH:]
        for group in optimiser.param_groups:
            faded = 0.5 * (1 + math.cos(math.pi * min(1, lesson.spent)))
            group["lr"] = OPTIMISER.lr * min(1.0, (step + 1) / WARMUP) * faded
        clips = [_disguised(copy(shelf.clip(i), FPS, SIZE, rng), rng) for i in chosen]
        loss = _step(model, optimiser, lesson, chosen, clips)
        step, shown = step + 1, shown + len(chosen)
        part = min(0.99, lesson.spent)
        epoch = shown / len(lesson.sources)
        report(Progress(part, math.ceil(epoch), math.ceil(epoch / max(part, 0.01)), loss, "training"))
    if held and trial is None:
        trial = _try(model, lesson, used, held)  # so little time that nothing was learnt from them
    _settle(model, lesson, used)
    return model.eval(), trial


class _Shelf:
    """The clips of a lesson, small and at hand."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson, self.kept, self.bytes = lesson, dict[int, Clip](), 0

    def clip(self, index: int) -> Clip:
        if index in self.kept:
            return self.kept[index]
        clip = self.lesson.clip(index)
        frames = torch.from_numpy(clip.frames).permute(0, 3, 1, 2)
        small = F.interpolate(frames, KEPT, mode="bilinear", antialias=True, align_corners=False)
        clip = Clip(small.permute(0, 2, 3, 1).numpy(), clip.times)
        if self.bytes + clip.frames.nbytes <= KEPT_BYTES:
            self.kept[index] = clip
            self.bytes += clip.frames.nbytes
        return clip


def _disguised(frames: Tensor, rng: np.random.Generator) -> Tensor:
    """A clip moved aside, its colours exchanged, and every second time its negative: what moves is left to go by."""
    height, width = frames.shape[-2:]
    most = int(ASIDE * min(height, width))
    top, left = (int(v) for v in rng.integers(2 * most + 1, size=2))
    padded = F.pad(frames[:, torch.from_numpy(rng.permutation(3))].float(), [most] * 4, mode="replicate")
    moved = padded[..., top : top + height, left : left + width]
    return 255 - moved if rng.random() < 0.5 else moved


def _step(
    model: Predictor, optimiser: torch.optim.Optimizer, lesson: Lesson, chosen: list[int], clips: list[Tensor]
) -> float:
    lengths = torch.tensor([len(clip) for clip in clips])
    frames = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True)
    valid = torch.arange(frames.shape[1]) < lengths[:, None]
    model.train()
    logits = model(frames, None, lengths)[0].logits
    target = torch.tensor([lesson.targets[i] for i in chosen])
    told = clip_loss(logits, {"action": target}, frame_weights(LOSS, valid, valid, 0), valid, LOSS)
    weight = torch.tensor([lesson.weight(i) for i in chosen])
    loss: Tensor = (told.loss * weight).mean()
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


@torch.no_grad()
def _settle(model: Predictor, lesson: Lesson, used: list[int]) -> None:
    """The statistics of the head's norm anew, from all clips: those that ran along lag behind so short a training."""
    model.eval()
    rows = torch.cat([_pooled(model, lesson, index) for index in used])
    for norm in (module for module in model.modules() if isinstance(module, FrameNorm)):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.copy_(rows.mean(0))
        norm.running_var.copy_(rows.var(0, correction=0))


def _pooled(model: Predictor, lesson: Lesson, index: int) -> Tensor:
    """(T, C), what the head's norm reads of a clip."""
    out = model(plain(lesson.clip(index), FPS, SIZE).unsqueeze(0))[0]
    return out.core.y[0].mean((-2, -1))


@torch.no_grad()
def _try(model: Predictor, lesson: Lesson, used: list[int], held: list[int]) -> Trial:
    model.eval()
    _settle(model, lesson, used)
    trial = Trial(0, 0, 0)
    for index in held:
        logits = model(plain(lesson.clip(index), FPS, SIZE).unsqueeze(0))[0].logits.action[0]
        trial += Trial.of(logits, lesson.targets[index])
    return trial
