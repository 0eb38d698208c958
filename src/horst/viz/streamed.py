"""A clip as a model saw it, frame by frame: what it said, and where it looked.

Shapes: T frames, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from horst.data.batches import BadClip, ClipDataset
from horst.data.example import Split
from horst.data.loader import ClipBatches
from horst.errors import DataError
from horst.evaluation.evaluate import clip_for, clip_output, eval_mode
from horst.models import Predictor
from horst.viz.attention_map import attention
from horst.viz.figure import escape
from horst.viz.picture import Image
from horst.viz.timelines import timeline

GREY = 128
BLOWN_UP = 16
"""Pixels for one of a map, where there are maps and no pictures."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What was shown, and what came of it."""

    id: str
    label: int | None
    """The true class, where it is known."""
    names: tuple[str, ...]
    """(C,)"""
    frames: list[Image]
    """(H, W, 3) each; grey where the data are maps that a backbone made before."""
    times: NDArray[np.float64]
    """(T,) seconds: into the clip, or to the action, below 0."""
    probabilities: NDArray[np.float64]
    """(T, C)"""
    temporal: tuple[Any, ...]
    """By layer, (1, T, S); nothing of a model that keeps no weights of attention."""
    spatial: tuple[Any, ...]
    """By layer, (1, T, S, h, w)."""
    parts: tuple[tuple[int, int], ...] = ()
    """(verb, noun) of every class."""


def stream(model: Predictor, module: ClipBatches, split: Split, index: int) -> Streamed:
    """Show a clip of a split to a model. A whole clip gives the same numbers as one frame after the other."""
    annotations, clip = module.annotations, clip_for(module, model)
    item = ClipDataset(module.source, split, clip)[index]
    if isinstance(item, BadClip):
        raise DataError(f"clip {item.id} cannot be read: {item.why}")
    count = len(item.frames)
    with eval_mode(model), torch.inference_mode():
        device = next(model.parameters()).device
        out = clip_output(model, item.frames[None].to(device), attention=model.core.order > 0)
    begin, step = (0.0, 1 / clip.fps) if annotations.task == "recognition" else (-clip.stride * count, clip.stride)
    return Streamed(
        id=item.id,
        label=item.labels.get("action"),
        names=annotations.classes["action"],
        frames=_images(item.frames),
        times=begin + step * np.arange(count, dtype=np.float64),
        probabilities=out.logits.action[0].double().softmax(-1).cpu().numpy(),
        temporal=out.core.temporal or (),
        spatial=out.core.spatial or (),
        parts=annotations.action_parts,
    )


def clip_section(clip: Streamed, moments: tuple[int, ...] = (), why: str = "") -> str:
    """What was said over time, and what was attended to at some frames."""
    right = clip.label is not None and int(clip.probabilities[-1].argmax()) == clip.label
    chip = f"<span class='chip {'right' if right else 'wrong'}'>{escape(why)}</span>" if why else ""
    name = clip.names[clip.label] if clip.label is not None else "nobody tells what is done"
    seconds = clip.times.tolist()
    marks = [seconds[moment] for moment in moments]
    what = "seconds before the action" if seconds[-1] < 0 else "seconds"
    figure = timeline(clip.probabilities, seconds, clip.names, clip.label, frames=clip.frames, marks=marks, x_name=what)
    layer = _telling_layer(clip) if clip.temporal else 0
    looks = [
        attention(
            clip.frames,
            clip.temporal,
            clip.spatial,
            at=moment,
            layer=layer,
            probabilities=clip.probabilities,
            names=clip.names,
            truth=clip.label,
            times=seconds,
            parts=clip.parts,
        )
        for moment in (moments if clip.temporal else ())
    ]
    widest = max((look.width for look in looks), default=None)
    return (
        f"<div class=card><h3>{escape(name)}{chip}</h3><span class=soft>clip {escape(clip.id)}</span>"
        f"{figure.inline()}{''.join(look.inline(widest) for look in looks)}</div>"
    )


def _telling_layer(clip: Streamed) -> int:
    """The one whose spatial maps differ most from place to place: others may look everywhere alike."""
    spans = [float(maps.float().std((-2, -1)).mean()) for maps in clip.spatial]
    return int(np.argmax(spans))


def _images(frames: torch.Tensor) -> list[Image]:
    if frames.dtype == torch.uint8:
        return list(frames.permute(0, 2, 3, 1).contiguous().numpy())
    grey = np.full((BLOWN_UP * frames.shape[2], BLOWN_UP * frames.shape[3], 3), GREY, np.uint8)
    return [grey] * len(frames)
