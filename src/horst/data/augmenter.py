"""Augmentation of training clips on the device. The random numbers of a clip do not depend on its batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from horst.data.batches import Batch
from horst.data.example import UNKNOWN, Annotations
from horst.errors import ConfigError, DataError
from horst.video.augment import CHANCES, RandAugment, apply_plan

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, the step of SplitMix64


@dataclass(frozen=True, kw_only=True, slots=True)
class Augment(RandAugment):
    """Augmentation of training clips."""

    mirror: bool = True  # flip half of the clips whose label after a flip is known from the annotations


NO_AUGMENT = Augment(operations=0, mirror=False)


class Augmenter:
    """Applies `Augment` to batches of the split of `annotations`, on their device."""

    def __init__(self, options: Augment, annotations: Annotations, seed: int) -> None:
        self.options, self.seed = options, seed
        self.examples, self.parts = annotations.examples, annotations.action_parts
        self.mirror = mirror_table(annotations) if options.mirror else ()

    def __call__(self, batch: Batch, epoch: int) -> Batch:
        count = self.options.operations
        if not len(batch) or not (self.mirror or count):
            return batch
        if count and batch.frames.dtype != torch.uint8:
            raise ConfigError("precomputed maps can only be mirrored: set augment.operations to 0")
        chances = clip_chances(self.seed, epoch, batch.indices, 1 + CHANCES * count)
        if self.mirror:
            batch = self._mirrored(batch, chances[:, 0] < 0.5)
        if count:
            plan = self.options.plan(torch.from_numpy(chances[:, 1:].reshape(-1, count, CHANCES)))
            batch = replace(batch, frames=apply_plan(batch.frames, plan, batch.lengths))
        return batch

    def _mirrored(self, batch: Batch, drawn: NDArray[np.bool_]) -> Batch:
        # Labels come from the examples: reading them from the batch would wait for the GPU.
        actions = [self.examples[index].labels.get("action", UNKNOWN) for index in batch.indices]
        mirrored = [self.mirror[action] if action != UNKNOWN else UNKNOWN for action in actions]
        chosen = [i for i, label in enumerate(mirrored) if drawn[i] and label != UNKNOWN]
        if not chosen:
            return batch
        rows = torch.tensor(chosen).to(batch.frames.device, non_blocking=True)
        new = {"action": torch.tensor([mirrored[i] for i in chosen])}
        if self.parts:
            new["verb"], new["noun"] = torch.tensor(self.parts)[new["action"]].unbind(1)
        labels = dict(batch.labels)
        for task in labels.keys() & new.keys():
            labels[task] = labels[task].index_copy(0, rows, new[task].to(rows.device, non_blocking=True))
        # the maps of a mirrored frame are nearly the mirrored maps
        frames = batch.frames.index_copy(0, rows, batch.frames[rows].flip(-1))
        return replace(batch, frames=frames, labels=labels)


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
