"""A finetuning job: its clips and labels, the progress that it reports, and the accuracy on held-out clips."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from horst.data.clips import Clip
from horst.errors import InputError
from horst.finetune.recordings import check_label

ClipSource = Clip | Callable[[], Clip]  # or a function that reads it: clips of a folder need not all be in memory
NOTHING = "nothing"  # a class that every finetuned model has: idle, or none of its other labels
MIN_HELD_OUT = 3  # clips that each label needs before one of them is held out
FEW = 5  # clips of a label below which more of them help much
GOOD = 0.8  # accuracy of a label below which it needs more clips


@dataclass(frozen=True, slots=True)
class FinetuneProgress:
    """How far a job has come."""

    fraction: float  # 0 to 1
    message: str


Report = Callable[[FinetuneProgress], None]


@dataclass(frozen=True, slots=True)
class LabelResult:
    """Held-out clips of one label."""

    label: str
    clips: int
    correct: int  # at the end of the clip
    confused: dict[str, int]  # how many of the others were classified as each other label


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out clips that a model, which was not trained on them, classified correctly."""

    clips: int
    correct: int  # at the end of the clip
    correct_at_half: int
    labels: list[LabelResult]

    @property
    def accuracy(self) -> float:
        return self.correct / self.clips

    @classmethod
    def of(cls, results: Iterable[tuple[Tensor, int]], labels: Sequence[str]) -> Self | None:
        """Of the logits (T, classes) and the class of each clip; None without clips."""
        answers = [(logits.argmax(-1).tolist(), target) for logits, target in results]
        if not answers:
            return None
        by_label = []
        for target, label in enumerate(labels):
            last = [labels[answer[-1]] for answer, of in answers if of == target]
            if last:
                wrong = Counter(name for name in last if name != label)
                by_label.append(LabelResult(label, len(last), last.count(label), dict(wrong.most_common())))
        half = sum(answer[(len(answer) - 1) // 2] == target for answer, target in answers)
        return cls(len(answers), sum(result.correct for result in by_label), half, by_label)


@dataclass(frozen=True, slots=True)
class FinetuneJob:
    """Clips with their labels."""

    labels: list[str]  # "nothing" is the last one, if there are clips of it
    sources: list[ClipSource]
    targets: list[int]  # index in `labels` of each clip's label

    @classmethod
    def of(cls, clips: Mapping[str, Sequence[ClipSource]]) -> Self:
        """InputError if the job is impossible."""
        labels = [check_label(label) for label in clips]
        empty = [label for label, known in clips.items() if not len(known)]
        if len(set(labels)) < 2 or len(set(labels)) < len(labels) or empty:
            there = f"{len(labels)} labels, {len(empty)} of them without clips"
            raise InputError(f"finetuning needs clips of at least two different labels; there are {there}")
        last = dict(sorted(zip(labels, clips.values(), strict=True), key=lambda pair: pair[0] == NOTHING))
        targets = [index for index, known in enumerate(last.values()) for _ in known]
        return cls(list(last), [source for known in last.values() for source in known], targets)

    def clip(self, index: int) -> Clip:
        source = self.sources[index]
        clip = source() if callable(source) else source
        if not len(clip.frames) or len(clip.frames) != len(clip.times):
            raise InputError(f"a clip of {self.labels[self.targets[index]]!r} has no frames, or not one time for each")
        return clip

    def weight(self, index: int) -> float:
        """Weight of a clip in the loss: all labels have the same total."""
        return len(self.sources) / (len(self.labels) * self.targets.count(self.targets[index]))

    def folds(self) -> list[list[int]]:
        """Clips to hold out together, one of each label; no fold if an action has too few clips."""
        by_label = [[i for i, t in enumerate(self.targets) if t == label] for label in range(len(self.labels))]
        fewest = min(len(clips) for label, clips in zip(self.labels, by_label, strict=True) if label != NOTHING)
        folds = range(fewest if fewest >= MIN_HELD_OUT else 0)
        return [[clips[fold] for clips in by_label if fold < len(clips)] for fold in folds]

    @property
    def classes(self) -> list[str]:
        """The classes of the model: the labels, and "nothing"."""
        return self.labels if NOTHING in self.labels else [*self.labels, NOTHING]

    def advice(self, held_out: HeldOut | None) -> list[str]:
        """What to record more of, in sentences."""
        found = []
        if held_out is None:
            found.append(f"Record {MIN_HELD_OUT} clips of each label, so that the accuracy can be measured.")
        results = {result.label: result for result in held_out.labels} if held_out else {}
        for index, label in enumerate(self.labels):
            count, result = self.targets.count(index), results.get(label)
            if result and result.correct < GOOD * result.clips:
                others = " or ".join(f'"{other}"' for other in result.confused)
                wrong = f"{result.clips - result.correct} of {result.clips}"
                found.append(f'Record more clips of "{label}": {wrong} were taken for {others}.')
            elif count < FEW:
                found.append(f'Record more clips of "{label}": there are {count}.')
        if NOTHING not in self.labels:
            found.append(f'Record clips of "{NOTHING}", such as idle people and other movements.')
        return found
