"""What is done to training clips, on the device that trains: one draw for a clip, whatever batch it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from horst.data.batches import UNKNOWN, Batch
from horst.data.example import Annotations
from horst.errors import ConfigError, DataError
from horst.video.augment import CHANCES, MirrorFlip, RandAugment, apply

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, the step of SplitMix64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Augment:
    """What is done to training clips."""

    operations: int = 2
    """Of RandAugment, one after the other; 0: none."""
    magnitude: int = 9
    """Of RandAugment, 0 to 30."""
    magnitude_std: float = 0.0
    mirror: bool = True
    """Flip half of the clips whose labels say what they show then; none where the annotations do not say."""

    def __post_init__(self) -> None:
        RandAugment(operations=self.operations, magnitude=self.magnitude, magnitude_std=self.magnitude_std)


NO_AUGMENT = Augment(operations=0, mirror=False)


class Augmenter:
    """Applies `Augment` to batches on the device that they lie on."""

    def __init__(self, options: Augment, annotations: Annotations, seed: int) -> None:
        """`annotations`: of the split that the batches' indices count in."""
        self.rand = RandAugment(
            operations=options.operations, magnitude=options.magnitude, magnitude_std=options.magnitude_std
        )
        self.seed = seed
        self.examples, self.parts = annotations.examples, annotations.action_parts
        mirror = mirror_table(annotations) if options.mirror else ()
        self.flip = MirrorFlip(mirror, probability=1.0) if mirror else None  # which ones is drawn here, clip by clip

    def __call__(self, batch: Batch, epoch: int) -> Batch:
        if not len(batch) or (self.flip is None and not self.rand.operations):
            return batch
        if batch.frames.dtype != torch.uint8:
            raise ConfigError("precomputed maps cannot be augmented, only pictures can: turn augment off")
        count = self.rand.operations
        chances = clip_chances(self.seed, epoch, batch.indices, 1 + CHANCES * count)
        if self.flip is not None:
            batch = self._mirrored(batch, self.flip, chances[:, 0] < 0.5)
        if count:
            plan = self.rand.plan(torch.from_numpy(chances[:, 1:].reshape(-1, count, CHANCES)))
            batch = replace(batch, frames=apply(batch.frames, plan, batch.lengths))
        return batch

    def _mirrored(self, batch: Batch, flip: MirrorFlip, drawn: NDArray[np.bool_]) -> Batch:
        # Labels come from the examples: to ask the batch for them would wait for the GPU.
        actions = [self.examples[index].labels.get("action", UNKNOWN) for index in batch.indices]
        mirrored = [int(flip.mirror[a]) if a != UNKNOWN else UNKNOWN for a in actions]
        chosen = [i for i, label in enumerate(mirrored) if drawn[i] and label != UNKNOWN]
        if not chosen:
            return batch
        rows = torch.tensor(chosen).to(batch.frames.device, non_blocking=True)
        flipped, after = flip(batch.frames[rows], torch.tensor([actions[i] for i in chosen]))
        new = {"action": after}
        if self.parts:
            verbs, nouns = torch.tensor(self.parts)[after].unbind(1)
            new |= {"verb": verbs, "noun": nouns}
        labels = {task: _put(values, rows, new.get(task)) for task, values in batch.labels.items()}
        return replace(batch, frames=batch.frames.index_copy(0, rows, flipped), labels=labels)


def clip_chances(seed: int, epoch: int, indices: Sequence[int], count: int) -> NDArray[np.float64]:
    """(clips, count) numbers in 0..1: for each clip in each epoch its own, whatever batch it is in.

    They are SplitMix64's (Steele et al., 2014) of a counter, for all clips at once: a generator for each clip is
    many times slower, and a GPU would wait for it.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        key = _mix(_mix(np.uint64(seed % 2**64)) ^ np.uint64(epoch))
        state = _mix(key ^ np.asarray(indices, np.uint64))[:, None] + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
        return (_mix(state) >> np.uint64(11)) * 2.0**-53


def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def mirror_table(annotations: Annotations) -> tuple[int, ...]:
    """The action after a flip. Where a verb or noun would change too and nobody says to what, there is no flip."""
    mirror, actions = annotations.mirror, len(annotations.classes["action"])
    if mirror and len(mirror) != actions:
        raise DataError(f"{annotations.name}: mirror is for {len(mirror)} actions and there are {actions}")
    others = set(annotations.classes) - {"action"}
    if not others or annotations.action_parts:
        return mirror
    return tuple(after if after == action else UNKNOWN for action, after in enumerate(mirror))


def _put(values: Tensor, rows: Tensor, new: Tensor | None) -> Tensor:
    return values if new is None else values.index_copy(0, rows, new.to(values.device, non_blocking=True))
