"""Examples and annotations: what every data set consists of. Nothing is decoded before a clip is read."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

from horst.config import Task as Task
from horst.errors import DataError

Split = str  # train, val or test
FIT_SPLITS = ("train", "val")  # the splits that a training run reads
UNKNOWN = -1  # the label of an example without one
ClipId = tuple[str, str, float, float | None, int | None]  # id, video, start, end and start_frame of an example


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceTiming:
    """At which times numbered images are shown, which they do not state themselves."""

    fps: float
    first: int | None = None  # the number of the image at time 0; None: the lowest number
    duration: float | None = None  # seconds of the original video, which the highest number must match
    others: tuple[tuple[str, float], ...] = ()  # (option, fps) of other frame rates that such images may have


class ActionSegment(NamedTuple):
    """An action in a whole video."""

    start: float  # seconds
    end: float
    label: int  # of "action"; UNKNOWN (detection): ambiguous, its frames are neither learned nor evaluated


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One action to predict, or with the tasks "online" and "detection" one whole video."""

    id: str
    split: Split
    media: Path  # a video file, or a folder or tar file of images
    labels: Mapping[str, int]  # classes: "action", with anticipation "verb" and "noun" if known; empty without labels
    start: float = 0.0  # of the action, in seconds
    end: float | None = None  # of the action, in seconds; None: the end of the media
    start_frame: int | None = None  # EPIC: the frame at which the action starts, numbered from 1 at 30 fps
    video: str = ""  # its name in the annotations, which also selects its images in a folder of several videos
    segments: tuple[ActionSegment, ...] = ()  # of a whole video: its actions, in order
    group: str = ""  # examples of one group, such as a participant or a recording, stay in one fold
    timing: SequenceTiming | None = field(default=None, compare=False)
    """The timing of media that is a folder or tar file of images. Like `media` it may differ between machines."""

    @property
    def clip_id(self) -> ClipId:
        """Identifies the clip, whatever its split and labels are."""
        return self.id, self.video, self.start, self.end, self.start_frame

    def to_dict(self) -> dict[str, Any]:
        """Plain data without `media` and `timing`, which depend on the machine."""
        plain = {name: getattr(self, name) for name in EXAMPLE_FIELDS} | {"labels": dict(self.labels)}
        return plain | ({"segments": [list(one) for one in self.segments]} if self.segments else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, media: Path) -> Self:
        """From plain data; other keys are ignored."""
        segments = tuple(
            ActionSegment(float(start), float(end), label) for start, end, label in data.get("segments", ())
        )
        return cls(media=media, segments=segments, **{name: data[name] for name in EXAMPLE_FIELDS})


EXAMPLE_FIELDS = tuple(f.name for f in fields(Example) if f.name not in ("media", "timing", "segments"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotations:
    """The examples of a data set and the names of their classes."""

    name: str
    task: Task
    examples: tuple[Example, ...]
    classes: Mapping[str, tuple[str, ...]]  # names of "action", "verb" and "noun"
    action_parts: tuple[tuple[int, int], ...] = ()  # (verb, noun) of every action, if actions consist of them
    subsets: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Sets of classes with their own metrics, such as "many-shot verb"."""
    example_sets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Sets of examples, by id, with their own metrics, such as "unseen" and "tail"."""
    mirror: tuple[int, ...] = ()  # the action after a horizontal flip, -1 if none. Empty: unknown, nothing is flipped
    notices: tuple[str, ...] = ()  # what the data set and its metrics lack, for people to read

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise DataError(f"{self.name}: task is {self.task!r}; choose from {', '.join(get_args(Task))}")
        for task, names in self.classes.items():
            repeated = [name for name, count in Counter(names).items() if count > 1]
            if repeated:
                raise DataError(f"{self.name}: the {task} {repeated[0]!r} is the name of several classes")
        for example in self.examples:
            for task, label in example.labels.items():
                count = len(self.classes[task])
                if not 0 <= label < count:
                    raise DataError(f"{self.name}: example {example.id} has {task} {label} of {count} classes")
            if self.task == "online" and not example.segments:
                raise DataError(f"{self.name}: video {example.id} has no segments: label it, or leave it out")
            first = 1 if self.task == "detection" else 0  # after the background
            check_segments(example, first, len(self.classes.get("action", ())), self.name)

    def split(self, name: Split) -> Self:
        """The annotations with the examples of one split."""
        chosen = tuple(e for e in self.examples if e.split == name)
        if not chosen:
            known = ", ".join(self.counts()) or "none"
            raise DataError(f"{self.name}: the split {name!r} has no examples; splits with examples: {known}")
        return replace(self, examples=chosen)

    def counts(self) -> dict[str, int]:
        """The number of examples by split."""
        return dict(sorted(Counter(e.split for e in self.examples).items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without what depends on the machine."""
        notices = {"notices": list(self.notices)} if self.notices else {}  # older versions had no such entry
        return notices | {
            "name": self.name,
            "task": self.task,
            "examples": [example.to_dict() for example in self.examples],
            "classes": {task: list(names) for task, names in self.classes.items()},
            "action_parts": [list(pair) for pair in self.action_parts],
            "subsets": {name: sorted(ids) for name, ids in self.subsets.items()},
            "example_sets": {name: sorted(ids) for name, ids in self.example_sets.items()},
            "mirror": list(self.mirror),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, media: Path) -> Self:
        """From plain data; other keys are ignored. `media` becomes the media of all examples."""
        try:
            return cls(
                name=data["name"],
                task=data["task"],
                examples=tuple(Example.from_dict(example, media=media) for example in data["examples"]),
                classes={task: tuple(names) for task, names in data["classes"].items()},
                action_parts=tuple((verb, noun) for verb, noun in data["action_parts"]),
                subsets={name: frozenset(ids) for name, ids in data["subsets"].items()},
                example_sets={name: frozenset(ids) for name, ids in data["example_sets"].items()},
                mirror=tuple(data["mirror"]),
                notices=tuple(data.get("notices", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{media}: its annotations are damaged ({type(error).__name__}: {error})") from error


def check_segments(example: Example, first: int, classes: int, name: str) -> None:
    """DataError if the segments of a video are not in order, or have labels that are not `first` to `classes`."""
    last = 0.0
    for start, end, label in example.segments:
        where = f"{name}: the segment at {start:g} s of video {example.id}"
        ambiguous = label == UNKNOWN and first == 1
        if not (ambiguous or first <= label < classes):
            raise DataError(f"{where} has label {label} of {classes} classes")
        if not last <= start < end:
            raise DataError(f"{where} ends at {end:g} s and follows one at {last:g} s: segments must be in order")
        last = start
