"""What every data set is: examples with labels, each of which says where its pictures are.

A data set is plain data, made by a reader of annotations; nothing is decoded before a clip is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from horst.errors import DataError

Task = Literal["recognition", "anticipation"]
Split = str
"""train, val or test."""
Media = Literal["video", "frames", "packed"]


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

    def __post_init__(self) -> None:
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
