"""Train a small network on the recorded clips alone, until the time is over.

A larger network without strong augmentation memorizes its few clips and classifies new ones at chance level. This one
is small, for many steps in little time; it starts as a difference of frames; and it sees clips shifted and in false
colours. docs/guides/finetune.md has results.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.clips import Clip
from horst.finetune.job import FinetuneJob, FinetuneProgress, HeldOut, Report
from horst.heads.pool import FrameNorm
from horst.layers.blocks import ConcatOutput
from horst.layers.cell import HORSTCell
from horst.masks import length_mask
from horst.models.predictor import Predictor, PredictorOutput
from horst.models.registry import create_model
from horst.training.config import Loss, Optimiser
from horst.training.losses import clip_loss, frame_weights
from horst.video.jitter import jitter_clip, resample_clip, scramble_appearance

ENOUGH = 10  # clips of each label below which the result is poor
SIZE, FPS = (48, 48), 6.0
CACHED_SIZE = (60, 60)  # frame size of cached clips: crops show a part of it
CACHE_BYTES = 256 * 2**20  # size of the clip cache; other clips are read again each time
BATCH = 8
WARMUP = 20
LOSS = Loss(steps="every", ramp=True, label_smoothing=0.1)
OPTIMISER = Optimiser(name="adamw", lr=0.004, weight_decay=0.02, lookahead=False)
TRY_AT = 0.75  # fraction of the time after which held-out clips are evaluated; from then on they are trained on too


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
    for cell in (module for module in model.modules() if isinstance(module, HORSTCell)):
        _start_as_difference(cell)
    return model


@torch.no_grad()
def _start_as_difference(cell: HORSTCell) -> None:
    """Make a layer a difference of frames at first: it emits a function of e + STATT, and STATT is -e of the past.

    A value is the negative of the normalized observation. SiLU of a normalized map has a mean of about 0.2 and a
    standard deviation of about 0.55, and the spatial attention is about a half at first: hence 1.1 and -0.4.
    """
    assert isinstance(cell.output, ConcatOutput)
    channels, key_value = cell.channels, cell.key_value
    same = torch.arange(channels)
    value = key_value.observed.weight[channels:]
    value.zero_()
    value[same, same, 1, 1] = -1
    key_value.recurrent.weight[channels:] *= 0.05
    key_value.norm.weight[channels:] = 1.1
    key_value.norm.bias[channels:] = -0.4
    cell.output.ff.conv.weight[:, : cell.in_channels] = 0  # ignores what does not move


def train(job: FinetuneJob, seed: int, report: Report) -> tuple[Predictor, HeldOut | None]:
    """A model of the job's labels, and its accuracy on held-out clips before it was trained on them too."""
    model = create(job.labels, seed)
    rng = np.random.default_rng(seed)
    optimiser = OPTIMISER.create(model.parameters())
    cache, all_clips = dict[int, Clip](), list(range(len(job.sources)))
    held = next(iter(job.folds()), [])
    used = [i for i in all_clips if i not in held]
    queue: list[int] = []
    held_out, step, seen = None, 0, 0
    while job.spent < 1 or step < 2:
        if held and held_out is None and job.spent > TRY_AT:
            held_out, used, queue = _evaluate(model, job, used, held), all_clips, []
        while len(queue) < BATCH:
            queue += rng.permutation(used).tolist()
        chosen, queue = queue[:BATCH], queue[BATCH:]
        for group in optimiser.param_groups:
            decay = 0.5 * (1 + math.cos(math.pi * min(1, job.spent)))
            group["lr"] = OPTIMISER.lr * min(1.0, (step + 1) / WARMUP) * decay
        small = [_cached_clip(job, index, cache) for index in chosen]
        clips = [scramble_appearance(jitter_clip(clip.frames, clip.times, FPS, SIZE, rng), rng) for clip in small]
        loss = _step(model, optimiser, job, chosen, clips)
        step, seen = step + 1, seen + len(chosen)
        fraction, epoch = min(0.99, job.spent), seen / len(job.sources)
        report(FinetuneProgress(fraction, math.ceil(epoch), math.ceil(epoch / max(fraction, 0.01)), loss, "training"))
    if held and held_out is None:
        held_out = _evaluate(model, job, used, held)  # there was too little time to train on them
    _update_norms(model, job, used)
    return model.eval(), held_out


def _cached_clip(job: FinetuneJob, index: int, cache: dict[int, Clip]) -> Clip:
    """A clip in a small size. `cache` holds as many of them as fit into CACHE_BYTES."""
    if index in cache:
        return cache[index]
    clip = job.clip(index)
    frames = torch.from_numpy(clip.frames).permute(0, 3, 1, 2)
    small = F.interpolate(frames, CACHED_SIZE, mode="bilinear", antialias=True, align_corners=False)
    clip = Clip(small.permute(0, 2, 3, 1).numpy(), clip.times)
    if clip.frames.nbytes + sum(kept.frames.nbytes for kept in cache.values()) <= CACHE_BYTES:
        cache[index] = clip
    return clip


def _step(
    model: Predictor, optimiser: torch.optim.Optimizer, job: FinetuneJob, chosen: list[int], clips: list[Tensor]
) -> float:
    lengths = torch.tensor([len(clip) for clip in clips])
    frames = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True)
    valid = length_mask(lengths, frames.shape[1])
    model.train()
    logits = model(frames, None, lengths)[0].logits
    target = torch.tensor([job.targets[i] for i in chosen])
    losses = clip_loss(logits, {"action": target}, frame_weights(LOSS, valid, valid, 0), valid, LOSS).loss
    loss: Tensor = (losses * torch.tensor([job.weight(i) for i in chosen])).mean()
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


@torch.no_grad()
def _update_norms(model: Predictor, job: FinetuneJob, used: list[int]) -> None:
    """Recompute the statistics of the head's norm: running averages lag behind in so short a training."""
    model.eval()
    rows = torch.cat([_output(model, job, index).core.y[0].mean((-2, -1)) for index in used])
    for norm in (module for module in model.modules() if isinstance(module, FrameNorm)):
        norm.get_buffer("running_mean").copy_(rows.mean(0))
        norm.get_buffer("running_var").copy_(rows.var(0, correction=0))


@torch.no_grad()
def _evaluate(model: Predictor, job: FinetuneJob, used: list[int], held: list[int]) -> HeldOut | None:
    _update_norms(model, job, used)
    return HeldOut.of((_output(model, job, i).logits.action[0], job.targets[i]) for i in held)


def _output(model: Predictor, job: FinetuneJob, index: int) -> PredictorOutput:
    clip = job.clip(index)
    return model(resample_clip(clip.frames, clip.times, FPS, SIZE).unsqueeze(0))[0]
