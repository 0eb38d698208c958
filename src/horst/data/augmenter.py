"""Augmentation of training clips on the device. The random numbers of a clip do not depend on its batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from horst.config import check_entries
from horst.data.batches import Batch, stack_labels
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, Annotations
from horst.data.segments import WHOLE_VIDEOS, horizons, video_labels
from horst.errors import ConfigError, DataError
from horst.masks import length_mask
from horst.video.augment import CHANCES, RandAugment, apply_plan, zoom

OVERSAMPLE = 3
SPEED_SEED, ZOOM_SEED = 0x5EED, 0x2004  # their numbers are independent of those of the other augmentations
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, the step of SplitMix64


@dataclass(frozen=True, kw_only=True, slots=True)
class Augment(RandAugment):
    """Augmentation of training clips."""

    mirror: bool = True  # flip half of the clips whose label after a flip is known from the annotations
    zoom: float = 0.0
    """Enlarge or reduce each clip about its centre, by a factor of up to exp(zoom)."""
    speed: float = 0.0
    """Whole videos: play each faster or slower, by a factor of up to exp(speed), from a random first frame. For that
    they are read at OVERSAMPLE times their frame rate."""
    excerpt: int | None = None
    """Whole videos: train on a random part of each, of this many frames. The state starts at its first frame. More
    videos, each with its own augmentation, fit in a batch."""

    def __post_init__(self) -> None:
        RandAugment.__post_init__(self)
        check_entries("augment", self, excerpt="1..", speed="0..1", zoom="0..1")


NO_AUGMENT = Augment(operations=0, mirror=False)


class Augmenter:
    """Applies `Augment` to batches of the split of `annotations`, on their device."""

    def __init__(self, options: Augment, annotations: Annotations, seed: int, clip: ClipConfig | None = None) -> None:
        self.options, self.seed, self.clip = options, seed, clip or ClipConfig()
        for name in ("speed", "excerpt"):
            if getattr(options, name) and annotations.task not in WHOLE_VIDEOS:
                what = f"the task of {annotations.name} is {annotations.task}"
                raise ConfigError(f"augment.{name} is for whole videos; {what}")
        self.examples, self.parts, self.task = annotations.examples, annotations.action_parts, annotations.task
        self.mirror = mirror_table(annotations) if options.mirror else ()

    def __call__(self, batch: Batch, epoch: int) -> Batch:
        count = self.options.operations
        if len(batch) and (self.options.speed or self.options.excerpt):
            batch = self._played(batch, clip_chances(self.seed ^ SPEED_SEED, epoch, batch.indices, 3))
        batch = batch.read()
        if not len(batch) or not (self.mirror or count or self.options.zoom):
            return batch
        if (count or self.options.zoom) and batch.frames.dtype != torch.uint8:
            raise ConfigError("precomputed maps can only be mirrored: set augment.operations and augment.zoom to 0")
        chances = clip_chances(self.seed, epoch, batch.indices, 1 + CHANCES * count)
        if self.mirror:
            batch = self._mirrored(batch, chances[:, 0] < 0.5)
        if self.options.zoom:
            drawn = 2 * clip_chances(self.seed ^ ZOOM_SEED, epoch, batch.indices, 1)[:, 0] - 1
            batch = replace(batch, frames=zoom(batch.frames, torch.from_numpy(drawn * self.options.zoom).exp()))
        if count:
            plan = self.options.plan(torch.from_numpy(chances[:, 1:].reshape(-1, count, CHANCES)))
            batch = replace(batch, frames=apply_plan(batch.frames, plan, batch.lengths))
        return batch

    def _mirrored(self, batch: Batch, drawn: NDArray[np.bool_]) -> Batch:
        # Labels come from the examples: reading them from the batch would wait for the GPU.
        chosen = [i for i, index in enumerate(batch.indices) if drawn[i] and self._can_be_mirrored(index)]
        if not chosen:
            return batch
        rows = torch.tensor(chosen).to(batch.frames.device, non_blocking=True)
        after = torch.tensor([*self.mirror, UNKNOWN]).to(rows.device, non_blocking=True)  # the index -1 is UNKNOWN too
        labels = dict(batch.labels)
        for task in labels.keys() & {"action", "present", "ahead", "sequence"}:
            labels[task] = labels[task].index_copy(0, rows, after[labels[task][rows]])
        if self.parts:
            parts = torch.tensor(self.parts).to(rows.device, non_blocking=True)[labels["action"][rows]]
            for task, new in zip(("verb", "noun"), parts.unbind(-1), strict=True):
                if task in labels:
                    labels[task] = labels[task].index_copy(0, rows, new)
        # the maps of a mirrored frame are nearly the mirrored maps
        frames = batch.frames.index_copy(0, rows, batch.frames[rows].flip(-1))
        return replace(batch, frames=frames, labels=labels)

    def _played(self, batch: Batch, chances: NDArray[np.float64]) -> Batch:
        """Whole videos at other speeds, or parts of them. Horizons are in the seconds of the video that is played."""
        device, rows, labels = batch.frames.device, [], []
        every = OVERSAMPLE if self.options.speed else 1
        for index, length, times, (a, b, c) in zip(
            batch.indices, batch.lengths.tolist(), batch.times, chances, strict=True
        ):
            factor = float(np.exp((2 * a - 1) * self.options.speed))
            places = np.arange(b * (every - 1), length, every * factor).astype(np.int64)
            if (count := self.options.excerpt) is not None:
                first = int(c * (max(len(places) - count, 0) + 1))
                places = places[first : first + count]
            taus = [factor * tau for tau in horizons(self.clip)]
            found = video_labels(self.task, self.examples[index], times.numpy()[places], taus, self.clip.sequence)
            labels.append({task: of / factor if task == "gap" else of for task, of in found.items()})
            rows.append(torch.from_numpy(places))
        lengths = torch.tensor([len(row) for row in rows])
        longest = int(lengths.max())
        chosen = torch.stack([F.pad(row, (0, longest - len(row))) for row in rows])
        valid = length_mask(lengths, longest)
        clips = torch.arange(len(rows))[:, None]
        there = (clips.to(device), chosen.to(device, non_blocking=True))
        shape = (*valid.shape, *(1,) * (batch.frames.ndim - 2))
        return replace(
            batch,
            frames=batch.frames[there] * valid.to(device, non_blocking=True).view(shape),
            lengths=lengths,
            times=batch.times[clips, chosen].masked_fill(~valid, math.nan),
            observed=batch.observed[there] & valid.to(device, non_blocking=True),
            labels={
                task: stack_labels([one[task] for one in labels], longest).to(device, non_blocking=True)
                for task in batch.labels
            },
        )

    def _can_be_mirrored(self, index: int) -> bool:
        example = self.examples[index]
        actions = [s.label for s in example.segments] or [example.labels.get("action", UNKNOWN)]
        return all(action != UNKNOWN and self.mirror[action] != UNKNOWN for action in actions)


def clip_chances(seed: int, epoch: int, indices: Sequence[int], count: int) -> NDArray[np.float64]:
    """(clips, count) random numbers in 0..1: SplitMix64 (Steele et al., 2014) of seed, epoch, index and a counter.

    They are drawn for all clips at once: one generator for each clip is many times slower, and a GPU would wait for it.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is intended
        key = _mix(_mix(np.uint64(seed % 2**64)) ^ np.uint64(epoch))
        state = _mix(key ^ np.asarray(indices, np.uint64))[:, None] + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
        return (_mix(state) >> np.uint64(11)) * 2.0**-53


def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def mirror_table(annotations: Annotations) -> tuple[int, ...]:
    """The action after a flip; UNKNOWN if its verb or noun would change too and is not known."""
    mirror, actions = annotations.mirror, len(annotations.classes["action"])
    if mirror and len(mirror) != actions:
        raise DataError(f"{annotations.name}: mirror is for {len(mirror)} actions and there are {actions}")
    for action, after in enumerate(mirror):
        if after != UNKNOWN and (not 0 <= after < actions or mirror[after] != action):
            raise DataError(f"{annotations.name}: mirror maps {action} to {after}, which must map back to {action}")
    others = set(annotations.classes) - {"action"}
    if not others or annotations.action_parts:
        return mirror
    return tuple(after if after == action else UNKNOWN for action, after in enumerate(mirror))
