"""Sections of a report page about single clips: which clips to show, the predictions over time, and the attention.

Shapes: T frames, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as PILImage
from torch import Tensor

from horst.data.batches import BadClip, ClipDataset
from horst.data.example import UNKNOWN, Split
from horst.data.loader import ClipBatches
from horst.errors import DataError
from horst.evaluation.evaluate import clip_for, clip_output, eval_mode
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Predictions
from horst.models import Predictor
from horst.video.frame import Image
from horst.viz.clip_figures import attention, timeline
from horst.viz.style import escape, inline, jpeg

TOP = 5  # most likely classes that count as predicted before an action
FRAMES, SIDE = 40, 192  # the most frames of a clip that plays in the page, and pixels of their longer side
GREY, MAP_SCALE = 128, 16  # frames where the data are feature maps: the grey level, and pixels per cell of the map


@dataclass(frozen=True, slots=True)
class StreamedClip:
    """A clip and what the model predicted at each of its frames."""

    id: str
    label: int | None  # the true class, if known
    names: tuple[str, ...]  # (C,)
    frames: list[Image]  # (H, W, 3) each; grey where the data are feature maps
    times: NDArray[np.float64]  # (T,) seconds: into the clip, or to the action, below 0
    probabilities: NDArray[np.float64]  # (T, C)
    temporal: tuple[Any, ...]  # by layer, (1, T, S); empty for a model without attention weights
    spatial: tuple[Any, ...]  # by layer, (1, T, S, h, w)
    parts: tuple[tuple[int, int], ...] = ()  # (verb, noun) of every class


def stream_clip(model: Predictor, module: ClipBatches, split: Split, index: int) -> StreamedClip:
    """Run a model on a clip of a split. The whole clip gives the same numbers as one frame after the other."""
    annotations, clip = module.annotations, clip_for(module, model)
    dataset = ClipDataset(module.source, split, clip)
    item = dataset[index]
    if isinstance(item, BadClip):
        raise DataError(f"clip {item.id} cannot be read: {item.why}")
    count = len(item.frames)
    with eval_mode(model), torch.inference_mode():
        device = next(model.parameters()).device
        out = clip_output(model, item.frames[None].to(device), attention=model.core.order > 0)
    if item.frames.dtype == torch.uint8:
        images = list(item.frames.permute(0, 2, 3, 1).contiguous().numpy())
    else:
        height, width = item.frames.shape[2:]
        images = [np.full((MAP_SCALE * height, MAP_SCALE * width, 3), GREY, np.uint8)] * count
    begin, step = (0.0, 1 / clip.fps) if annotations.task != "anticipation" else (-clip.stride * count, clip.stride)
    return StreamedClip(
        id=item.id,
        label=dataset.examples[index].labels.get("action"),
        names=annotations.classes["action"],
        frames=images,
        times=begin + step * np.arange(count, dtype=np.float64),
        probabilities=out.logits.action[0].double().softmax(-1).cpu().numpy(),
        temporal=out.core.temporal or (),
        spatial=out.core.spatial or (),
        parts=annotations.action_parts,
    )


def clip_section(clip: StreamedClip, moments: tuple[int, ...] = (), kind: str = "") -> str:
    """Predictions over time, and the attention at some frames. `kind`: why the clip was chosen."""
    right = clip.label is not None and int(clip.probabilities[-1].argmax()) == clip.label
    chip = f"<span class='chip {'right' if right else 'wrong'}'>{escape(kind)}</span>" if kind else ""
    name = clip.names[clip.label] if clip.label is not None else "no label"
    times = clip.times.tolist()
    common: dict[str, Any] = {"probabilities": clip.probabilities, "names": clip.names, "truth": clip.label}
    x_name = "seconds before the action" if times[-1] < 0 else "seconds"
    marks = [times[moment] for moment in moments]
    over_time = timeline(times=times, frames=clip.frames, marks=marks, x_name=x_name, **common)
    figures = []
    if clip.temporal:
        # The layer whose spatial maps vary most: others may be uniform.
        layer = int(np.argmax([float(maps.float().std((-2, -1)).mean()) for maps in clip.spatial]))
        given = clip.frames, clip.temporal, clip.spatial
        common |= {"layer": layer, "times": times, "parts": clip.parts}
        figures = [attention(*given, at=moment, **common) for moment in moments]
    widest = max((72 * figure.get_figwidth() for figure in figures), default=None)
    return (
        f"<div class=card><div class=clip>{player(clip, name)}<div><h3>{escape(name)}{chip}</h3>"
        f"<span class=soft>clip {escape(clip.id)}</span></div></div>"
        f"{inline(over_time)}{''.join(inline(figure, widest) for figure in figures)}</div>"
    )


def player(clip: StreamedClip, name: str) -> str:
    """The clip in a loop without a script: a strip of frames that assets/page.css moves, until a click or a space.

    In print it is the first frame. Empty if nothing moves: one frame, or feature maps.
    """
    count = len(clip.frames)
    if clip.frames[0] is clip.frames[-1]:
        return ""
    images = [PILImage.fromarray(clip.frames[i]) for i in np.linspace(0, count - 1, min(count, FRAMES)).astype(int)]
    for image in images:
        image.thumbnail((SIDE, SIDE))
    seconds = count * (clip.times[1] - clip.times[0]) / 0.8  # the last frame stays for the rest
    look = f"aspect-ratio:{images[0].width}/{images[0].height};animation-duration:{seconds:.2f}s;"
    look += f"animation-timing-function:steps({len(images)},jump-none)"
    return (
        f'<label class=player><input type=checkbox aria-label="Pause or play: {escape(name)}">'
        f'<img alt="" src="{jpeg(np.hstack([np.asarray(image) for image in images]))}" style="{look}"><i></i></label>'
    )


def choose_clips(predictions: Predictions, count: int) -> list[tuple[int, str]]:
    """(index in the split, kind) of up to `count` clips: right early, changed, wrong, in turn; clear cases first."""
    labels, scores = predictions.labels["action"], predictions.scores["action"]
    answers = scores.argmax(-1)  # (N, P)
    confidence = probabilities(scores[:, -1].double()).amax(-1)
    usable = predictions.read & (labels != UNKNOWN) & (scores[:, -1] > -torch.inf).any(-1)
    right = answers == labels[:, None]
    over_time = predictions.answers if predictions.answers.shape[1] else answers  # at frames, else at positions
    changes = ((over_time[:, 1:] != over_time[:, :-1]) & (over_time[:, 1:] >= 0)).sum(1)
    kinds = {
        "right early": _ranked(usable & right[:, -1], right.sum(1) - 0.1 * changes + 0.05 * confidence),
        "changed": _ranked(usable & right[:, -1] & (changes > 0), changes - 0.1 * right.sum(1)),
        "wrong": _ranked(usable & ~right[:, -1], confidence),
    }
    found: dict[int, str] = {}
    while len(found) < count and any(kinds.values()):
        for kind, ranked in kinds.items():
            while ranked and ranked[0] in found:
                ranked.pop(0)
            if ranked and len(found) < count:
                found[ranked.pop(0)] = kind
    return sorted(found.items(), key=lambda item: list(kinds).index(item[1]))


def _ranked(rows: Tensor, value: Tensor) -> list[int]:
    """The chosen rows, the highest value first."""
    order = torch.argsort(value.double(), descending=True, stable=True)
    return [index for index in order.tolist() if rows[index]]


@dataclass(frozen=True, slots=True)
class Moment:
    """A prediction before an action."""

    start: float  # seconds into the video at which the action starts
    label: int
    image: Image  # the last frame that the model has seen
    probabilities: NDArray[np.float64]  # (C,)

    @property
    def rank(self) -> int:
        """Of the true action among the predictions, from 1."""
        return 1 + int((self.probabilities > self.probabilities[self.label]).sum())

    def top(self) -> list[int]:
        """The most likely classes."""
        return np.argsort(-self.probabilities, kind="stable")[:TOP].tolist()


def moments_section(moments: Sequence[Moment], names: Sequence[str], tau: float) -> str:
    """Frames before actions, the actions, and the predictions."""
    figures = []
    for moment in moments:
        entries = [(i, f"{escape(names[i])} {100 * moment.probabilities[i]:.0f}%") for i in moment.top()]
        top = "<br>".join(f"<span class=right>{text}</span>" if i == moment.label else text for i, text in entries)
        mark = "right" if moment.rank <= TOP else "wrong"
        figures.append(
            f'<figure><img alt="" src="{jpeg(moment.image)}"><figcaption><b class={mark}>{moment.start:.1f} s: '
            f"{escape(names[moment.label])}</b>{top}</figcaption></figure>"
        )
    return (
        f"<h2>Predictions {tau:g} s before the action</h2><p class=soft>The first actions of a video. Image: the last "
        "frame that the model has seen. Bold: the action and its start, green if it is among the top 5. Below: the top "
        f"5.</p><div class=card><div class=strip>{''.join(figures)}</div></div>"
    )
