"""A finetuning job: its clips, labels and time, the progress that it reports, and the accuracy on held-out clips."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from horst.data.clips import Clip
from horst.errors import InputError
from horst.finetune.recordings import check_label

ClipSource = Clip | Callable[[], Clip]  # or a function that reads it: clips of a folder need not all be in memory
MIN_HELD_OUT = 3  # clips that each label needs before one of them is held out


@dataclass(frozen=True, slots=True)
class FinetuneProgress:
    """How far a job has come."""

    fraction: float  # of its time, 0 to 1
    epoch: int
    epochs: int  # as far as it is known
    loss: float | None
    message: str


Report = Callable[[FinetuneProgress], None]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out clips that a model, which was not trained on them, classified correctly."""

    clips: int
    correct: int  # at the end of the clip
    correct_at_half: int

    @property
    def accuracy(self) -> float:
        return self.correct / self.clips

    @classmethod
    def of(cls, results: Iterable[tuple[Tensor, int]]) -> Self | None:
        """Of the logits (T, classes) and the label of each clip; None without clips."""
        hits = [(logits.argmax(-1) == target).tolist() for logits, target in results]
        return cls(len(hits), sum(h[-1] for h in hits), sum(h[(len(h) - 1) // 2] for h in hits)) if hits else None


@dataclass(frozen=True, slots=True)
class FinetuneJob:
    """Clips with their labels, and the time that training may take."""

    labels: list[str]
    sources: list[ClipSource]
    targets: list[int]  # index in `labels` of each clip's label
    seconds: float
    started: float

    @classmethod
    def of(cls, clips: Mapping[str, Sequence[ClipSource]], minutes: float) -> Self:
        """A job that starts now; InputError if it is impossible."""
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes <= 60:
            raise InputError(f"minutes is {minutes!r}; it takes a number above 0 and up to 60")
        labels = [check_label(label) for label in clips]
        empty = [label for label, known in clips.items() if not len(known)]
        if len(set(labels)) < 2 or len(set(labels)) < len(labels) or empty:
            raise InputError(
                f"finetuning needs clips of at least two different labels; there are {len(labels)} labels, "
                f"{len(empty)} of them without clips"
            )
        sources = [source for known in clips.values() for source in known]
        targets = [index for index, known in enumerate(clips.values()) for _ in known]
        return cls(labels, sources, targets, 60.0 * minutes, time.monotonic())

    def clip(self, index: int) -> Clip:
        source = self.sources[index]
        clip = source() if callable(source) else source
        if not len(clip.frames) or len(clip.frames) != len(clip.times):
            raise InputError(f"a clip of {self.labels[self.targets[index]]!r} has no frames, or not one time for each")
        return clip

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def spent(self) -> float:
        """The fraction of its time that has passed; above 1 if it takes longer."""
        return self.elapsed / self.seconds

    def weight(self, index: int) -> float:
        """Weight of a clip in the loss: all labels have the same total."""
        return len(self.sources) / (len(self.labels) * self.targets.count(self.targets[index]))

    def folds(self) -> list[list[int]]:
        """Clips to hold out together, one of each label; no fold if a label has too few clips."""
        by_label = [[i for i, t in enumerate(self.targets) if t == label] for label in range(len(self.labels))]
        fewest = min(map(len, by_label))
        return [[clips[fold] for clips in by_label] for fold in range(fewest)] if fewest >= MIN_HELD_OUT else []
