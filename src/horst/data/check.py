"""What is wrong with a data set, before a training run finds out: counts, classes, files, overlap between splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from horst.data.config import Source
from horst.data.example import Annotations, Example
from horst.data.jobs import run_jobs
from horst.errors import VideoError

Depth = Literal["files", "headers", "frames"]

# What the paper counted, by data set: examples by split and classes by task.
PAPER: dict[str, dict[str, int]] = {
    "Something-Something v2": {"train": 56_769, "val": 7_503, "action": 41},
    "EPIC-Kitchens 55": {"train": 23_492, "val": 4_979, "action": 2_513, "verb": 125, "noun": 352},
    "EPIC-Kitchens 100": {"action": 3_087, "verb": 97, "noun": 300},  # its 3,087 is 3,806 in the annotations
}


@dataclass(frozen=True, slots=True)
class Check:
    """What was found."""

    counts: Mapping[str, int]
    """Examples by split."""
    classes: Mapping[str, int]
    """Classes by task."""
    paper: Mapping[str, int]
    """What the paper counted, by split and task; empty for other data sets."""
    histogram: tuple[tuple[str, int, int], ...]
    """(action, training examples, validation examples), the most frequent first."""
    files: int
    """Videos, frame folders and tar files that were looked at."""
    missing: tuple[str, ...]
    bad: tuple[tuple[str, str], ...]
    """(file, why) of those that do not open or decode completely."""
    overlap: tuple[tuple[str, str], ...]
    """(what, splits) of what stands in several splits: the same clip, the same group."""

    @property
    def sound(self) -> bool:
        """Whether every file is there and opens. Overlap may be meant: a participant in both splits is."""
        return not self.missing and not self.bad


def check(source: Source, *, depth: Depth = "headers", processes: int | None = None) -> Check:
    """Look through a data set: whether its files are there, open ("headers"), or decode to their ends ("frames")."""
    annotations = source.annotations
    media = sorted({e.media for e in annotations.examples})
    missing = tuple(str(path) for path in media if not path.exists())
    bad: tuple[tuple[str, str], ...] = ()
    if depth != "files":
        there = [path for path in media if path.is_file() and path.suffix != ".tar"]
        found = run_jobs("looking at files", partial(_problem, depth=depth), there, processes=processes)
        bad = tuple((str(path), why) for path, why in zip(there, found, strict=True) if why)
    return Check(
        counts=annotations.counts(),
        classes={task: len(names) for task, names in annotations.classes.items()},
        paper=PAPER.get(annotations.name, {}),
        histogram=_histogram(annotations),
        files=len(media),
        missing=missing,
        bad=bad,
        overlap=_overlap(annotations.examples),
    )


def _problem(path: Path, depth: Depth) -> str:
    from horst.video.decode import VideoFile

    try:
        with VideoFile(path, size=(32, 32), threads=1) as video:
            if depth == "headers":
                return ""
            for _ in video.frames():
                pass
            return "" if video.report.complete else str(video.report)
    except VideoError as error:
        return str(error).removeprefix(f"{path}: ")


def _histogram(annotations: Annotations) -> tuple[tuple[str, int, int], ...]:
    by_split = {
        split: Counter(e.labels["action"] for e in annotations.examples if e.split == split and e.labels)
        for split in ("train", "val")
    }
    rows = [
        (name, by_split["train"][i], by_split["val"][i]) for i, name in enumerate(annotations.classes.get("action", ()))
    ]
    return tuple(sorted(rows, key=lambda row: -row[1] - row[2]))


def _overlap(examples: tuple[Example, ...]) -> tuple[tuple[str, str], ...]:
    """Ids, files and groups that stand in several splits."""
    places: dict[str, set[str]] = defaultdict(set)
    for example in examples:
        places[f"clip {example.id}"].add(example.split)
        if example.group:
            places[f"group {example.group}"].add(example.split)
        if not example.media.is_dir():
            places[f"file {example.media}"].add(example.split)
    return tuple((what, ", ".join(sorted(splits))) for what, splits in sorted(places.items()) if len(splits) > 1)
