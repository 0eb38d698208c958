"""What every data set is: examples with labels, each of which says where its pictures are.

A data set is plain data, made by a reader of annotations; nothing is decoded before a clip is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from horst.errors import DataError

Task = Literal["recognition", "anticipation"]
Split = str
"""train, val or test."""
Media = Literal["video", "frames", "packed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pictures:
    """What numbered pictures do not say of themselves."""

    fps: float
    """Pictures a second."""
    first: int | None = None
    """The number that shows time 0; None: the lowest one."""
    duration: float | None = None
    """Seconds of the video that they were taken from; None: unknown. The highest number must fit it."""
    others: tuple[tuple[str, float], ...] = ()
    """(option, pictures a second) of the other rates that such pictures are known to have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One thing to predict."""

    id: str
    split: Split
    media: Path
    """A video file, or a folder or tar file of frames."""
    labels: Mapping[str, int]
    """Class by task: action, and for anticipation verb and noun where they are known. Empty where nobody tells."""
    start: float = 0.0
    """Seconds at which the action starts in its media."""
    end: float | None = None
    """Seconds at which it ends; None: with the media."""
    start_frame: int | None = None
    """EPIC: the frame at which it starts, numbered from 1 at 30 frames a second."""
    video: str = ""
    """The video's name in the annotations, where frames of several may lie in one folder."""
    group: str = ""
    """What must not be torn between splits: the participant, the recording."""
    pictures: Pictures | None = field(default=None, compare=False)
    """The rate of the media, where it is a folder or tar file of pictures. Like `media` it differs by machine."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the place of its pictures: that differs by machine."""
        return {name: getattr(self, name) for name in EXAMPLE_FIELDS} | {"labels": dict(self.labels)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, media: Path) -> Example:
        """From plain data, which may hold more than an example needs."""
        return cls(media=media, **{name: data[name] for name in EXAMPLE_FIELDS})


EXAMPLE_FIELDS = tuple(f.name for f in fields(Example) if f.name not in ("media", "pictures"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotations:
    """Examples and the names of their classes."""

    name: str
    task: Task
    examples: tuple[Example, ...]
    classes: Mapping[str, tuple[str, ...]]
    """Names by task."""
    action_parts: tuple[tuple[int, int], ...] = ()
    """(verb, noun) of every action, where actions are made of them."""
    subsets: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Sets of classes that are evaluated apart, such as "many-shot verb"."""
    example_sets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Sets of examples, by id, that are evaluated apart, such as "unseen" and "tail"."""
    mirror: tuple[int, ...] = ()
    """Action after a horizontal flip, -1 where it must not be flipped; empty: nobody says, so nothing is flipped."""
    notices: tuple[str, ...] = ()
    """What the data set lacks and its metrics will lack, for people to read."""

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise DataError(f"{self.name}: task is {self.task!r}; choose from {', '.join(get_args(Task))}")
        for task, names in self.classes.items():
            doubled = [name for name, count in Counter(names).items() if count > 1]
            if doubled:
                raise DataError(f"{self.name}: the {task} {doubled[0]!r} stands for several classes")
        for example in self.examples:
            for task, label in example.labels.items():
                if not 0 <= label < len(self.classes[task]):
                    raise DataError(
                        f"{self.name}: example {example.id} has {task} {label} of {len(self.classes[task])} classes"
                    )

    def split(self, name: Split) -> Annotations:
        """The examples of one split."""
        chosen = tuple(e for e in self.examples if e.split == name)
        if not chosen:
            there = ", ".join(sorted({e.split for e in self.examples})) or "none"
            raise DataError(f"{self.name}: there is no example in the split {name!r}; splits with examples: {there}")
        return replace(self, examples=chosen)

    def counts(self) -> dict[str, int]:
        """Examples by split."""
        return dict(sorted(Counter(e.split for e in self.examples).items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data as JSON gives it back, without the places of pictures: those differ by machine."""
        notices = {"notices": list(self.notices)} if self.notices else {}  # indexes of before had no such entry
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
    def from_dict(cls, data: Mapping[str, Any], *, media: Path) -> Annotations:
        """From plain data, which may hold more than annotations need. The pictures of all examples are in `media`."""
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
