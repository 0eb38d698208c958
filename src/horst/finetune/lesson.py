"""What is to be learnt, and what is told on the way; common to all ways of teaching."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from horst.data.clips import Clip
from horst.errors import InputError
from horst.finetune.names import check_label

Source = Clip | Callable[[], Clip]
"""A clip, or how to get it: the clips of a folder need not all be in memory."""
TRIED = 3
"""Clips that each label needs for one of them to be held out."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far teaching has come."""

    part: float
    """Of the time that it takes, 0 to 1."""
    epoch: int
    epochs: int
    """As far as that is known by now."""
    loss: float | None
    message: str


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """How many held-out clips were named rightly by a model that had not seen them."""

    clips: int
    right: int
    """At their end."""
    early: int
    """After half of them."""

    @property
    def accuracy(self) -> float:
        return self.right / self.clips

    def __add__(self, other: Trial) -> Trial:
        return Trial(self.clips + other.clips, self.right + other.right, self.early + other.early)

    @staticmethod
    def of(logits: Tensor, target: int) -> Trial:
        """What was said (T, classes) of one clip."""
        said = logits.argmax(-1)
        return Trial(1, int(said[-1] == target), int(said[(len(said) - 1) // 2] == target))


@dataclass(frozen=True, slots=True)
class Lesson:
    """Clips with their labels, and the time that there is."""

    labels: list[str]
    sources: list[Source]
    targets: list[int]
    """The place of each clip's label in `labels`."""
    seconds: float
    began: float

    @classmethod
    def of(cls, clips: Mapping[str, Sequence[Source]], minutes: float) -> Lesson:
        """Check what is to be taught."""
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes <= 60:
            raise InputError(f"minutes is {minutes!r}; it takes a number above 0 and up to 60")
        labels = [check_label(label) for label in clips]
        empty = [label for label, known in clips.items() if not len(known)]
        if len(set(labels)) < 2 or len(set(labels)) < len(labels) or empty:
            raise InputError(
                f"there is nothing to tell apart: {len(labels)} labels, {len(empty)} of them without a clip; "
                "record clips of at least two actions"
            )
        sources = [source for known in clips.values() for source in known]
        targets = [place for place, known in enumerate(clips.values()) for _ in known]
        return cls(labels, sources, targets, 60.0 * minutes, time.monotonic())

    def clip(self, index: int) -> Clip:
        source = self.sources[index]
        clip = source() if callable(source) else source
        if not len(clip.frames) or len(clip.frames) != len(clip.times):
            raise InputError(f"a clip of {self.labels[self.targets[index]]!r} has no frames, or not one time for each")
        return clip

    @property
    def spent(self) -> float:
        """The part of its time that is over; above 1 where it took longer."""
        return (time.monotonic() - self.began) / self.seconds

    def weight(self, index: int) -> float:
        """Of a clip, such that all labels count the same."""
        return len(self.sources) / (len(self.labels) * self.targets.count(self.targets[index]))

    def folds(self) -> list[list[int]]:
        """Clips to hold out, one of each label at a time; none where a label has too few."""
        places = [[i for i, t in enumerate(self.targets) if t == label] for label in range(len(self.labels))]
        fewest = min(map(len, places))
        return [[p[fold] for p in places] for fold in range(fewest)] if fewest >= TRIED else []
